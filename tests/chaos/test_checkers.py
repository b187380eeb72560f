"""The checkers on histories written by hand: what is right passes, and each fault is found."""

import math
import types
import unittest

import answers
import capacity
import violations as kinds
from answers import Window
from consumers import Consumers
from history import OK, REFUSED, UNKNOWN, History, Operation
from linear import IMPOSSIBLE, Step, Undecided, check
from plans import violations as plan_violations
from providers import Providers

C, D, P, Q = "consumer-c", "consumer-d", "provider-p", "provider-q"
ONE, TWO = {P: {"VCPU": 1}}, {P: {"VCPU": 2}}


class Log:
    """A history that is written in the order of the calls, with times that are given."""

    def __init__(self) -> None:
        self.history = History()

    def add(self, kind: str, begin: float, end: float, request: dict, outcome: str = OK, **more) -> Operation:
        operation = Operation(
            len(self.history.operations), "client", kind, more.pop("replica", "r0"), begin, request,
            end=math.inf if outcome == UNKNOWN else end, outcome=outcome, heard=end, **more,
        )  # fmt: skip
        self.history.operations.append(operation)
        return operation

    def write(self, begin, end, guard="any", held=None, outcome=OK, consumer=C, **more) -> Operation:
        writes = {consumer: {"guard": guard, "allocations": ONE if held is None else held}}
        return self.add("claim", begin, end, {"writes": writes}, outcome, **more)

    def write_two(self, begin, end, outcome=OK, held=None) -> Operation:
        held = held or {C: ONE, D: TWO}
        writes = {consumer: {"guard": "any", "allocations": of} for consumer, of in held.items()}
        return self.add("move", begin, end, {"writes": writes}, outcome)

    def release(self, begin, end, outcome=OK, **more) -> Operation:
        return self.write(begin, end, "delete", {}, outcome, **more)

    def read(self, begin, end, write: Operation | None, generation=1, consumer=C, held=None, **more) -> Operation:
        state = None
        if write is not None:
            held = held or write.request["writes"][consumer]["allocations"]
            state = {"generation": generation, "tag": write.tag, "allocations": held}
        return self.add("read-consumer", begin, end, {"consumer": consumer}, response={"state": state}, **more)

    def kinds(self) -> list[str]:
        return [violation.kind for violation in Consumers(self.history, [C, D], 100).violations()]


class LinearTest(unittest.TestCase):
    """The search itself, on one number that is set and read."""

    def steps(self, *described) -> list[Step]:
        made = []
        for begin, end, what, value in described:
            if what == "set":
                apply = lambda _, value=value: value  # noqa: E731
            elif what == "add":
                apply = lambda state, value=value: state + value  # noqa: E731
            else:
                apply = lambda state, value=value: state if state == value else IMPOSSIBLE  # noqa: E731
            made.append(Step(Operation(len(made), "", what, "", begin, {}), begin, end, apply, pure=what == "get"))
        return made

    def test_one_after_the_other(self):
        self.assertEqual(check(self.steps((0, 1, "set", 1), (2, 3, "get", 1)), 0), [])
        self.assertEqual(len(check(self.steps((0, 1, "set", 1), (2, 3, "get", 0)), 0)), 1)

    def test_overlapping_writes_may_be_in_any_order_but_one_only(self):
        both = [(0, 5, "set", 1), (0, 5, "set", 2)]
        self.assertEqual(check(self.steps(*both, (6, 7, "get", 1)), 0), [])
        self.assertEqual(check(self.steps(*both, (6, 7, "get", 2)), 0), [])
        self.assertEqual(len(check(self.steps(*both, (6, 7, "get", 1), (8, 9, "get", 2)), 0)), 1)

    def test_a_read_that_overlaps_a_write_may_show_either_but_not_go_back(self):
        write = (0, 9, "set", 1)
        self.assertEqual(check(self.steps(write, (1, 2, "get", 0), (3, 4, "get", 1)), 0), [])
        self.assertEqual(len(check(self.steps(write, (1, 2, "get", 1), (3, 4, "get", 0)), 0)), 1)

    def test_an_unknown_write_may_happen_late_or_never_but_once(self):
        never = (0, math.inf, "set", 1)
        self.assertEqual(check(self.steps(never, (5, 6, "get", 0), (7, 8, "get", 1)), 0), [])
        self.assertEqual(check(self.steps(never, (5, 6, "get", 0), (7, 8, "get", 0)), 0), [])
        again = self.steps(never, (5, 6, "get", 1), (7, 8, "set", 3), (9, 10, "get", 3), (11, 12, "get", 1))
        self.assertEqual(len(check(again, 0)), 1)

    def test_what_has_to_happen_is_not_left_out(self):
        # The sum tells that both have happened, although either order gives the same.
        both = [(0, 5, "add", 1), (0, 6, "add", 1)]
        self.assertEqual(check(self.steps(*both, (7, 8, "get", 2)), 0), [])
        self.assertEqual(len(check(self.steps(*both, (7, 8, "get", 1)), 0)), 1)

    def test_a_step_that_has_expired_cannot_happen(self):
        steps = self.steps((0, math.inf, "set", 1), (20, 21, "get", 1))
        self.assertEqual(check(steps, 0), [])
        steps[0].expires = 10
        self.assertEqual(len(check(steps, 0)), 1)

    def test_too_many_possibilities_are_said_to_be_undecided(self):
        steps = self.steps(*((0, math.inf, "add", 2**n) for n in range(16)), (1, 2, "get", -1))
        with self.assertRaises(Undecided):
            check(steps, 0)


class ConsumerTest(unittest.TestCase):
    def test_a_plain_life_is_right(self):
        log = Log()
        first = log.write(0, 1, None)
        log.read(2, 3, first)
        second = log.write(4, 5, 1, TWO)
        log.read(6, 7, second, generation=2)
        log.release(8, 9)
        log.read(10, 11, None)
        self.assertEqual(log.kinds(), [])

    def test_lost_write(self):
        log = Log()
        log.write(0, 1)
        log.read(2, 3, None)
        self.assertEqual(log.kinds(), [kinds.LOST])

    def test_lost_later_write(self):
        log = Log()
        first = log.write(0, 1)
        log.write(2, 3)
        log.read(4, 5, first)
        log.read(6, 7, first)
        self.assertEqual(log.kinds(), [kinds.LOST, kinds.LOST])

    def test_stale_read(self):
        log = Log()
        first = log.write(0, 1)
        second = log.write(2, 3)
        log.read(4, 5, first)
        log.read(6, 7, second, generation=2)
        self.assertEqual(log.kinds(), [kinds.STALE])

    def test_a_released_consumer_that_is_shown_is_stale(self):
        log = Log()
        first = log.write(0, 1)
        log.release(2, 3)
        log.read(4, 5, first)
        log.read(6, 7, None)
        self.assertIn(log.kinds(), ([kinds.STALE], [kinds.CONTRADICTION]))

    def test_refused_write_applied(self):
        log = Log()
        refused = log.write(0, 1, outcome=REFUSED, status=409)
        log.read(2, 3, refused)
        self.assertEqual(log.kinds(), [kinds.REFUSED_APPLIED])

    def test_a_write_that_nobody_made(self):
        log = Log()
        other = log.write(0, 1, consumer=D)
        log.read(2, 3, other, held=ONE, consumer=D)
        log.read(2, 3, other, held=ONE)
        self.assertEqual(log.kinds(), [kinds.INVENTED])

    def test_amounts_that_nobody_wrote(self):
        log = Log()
        first = log.write(0, 1)
        log.read(2, 3, first, held=TWO)
        self.assertEqual(log.kinds(), [kinds.INVENTED])

    def test_an_unknown_write_may_be_there_or_not(self):
        for shown in (True, False):
            log = Log()
            unknown = log.write(0, 1, outcome=UNKNOWN)
            log.read(2, 3, unknown if shown else None)
            self.assertEqual(log.kinds(), [])

    def test_an_unknown_write_does_not_come_and_go(self):
        log = Log()
        unknown = log.write(0, 1, outcome=UNKNOWN)
        log.read(2, 3, unknown)
        log.read(4, 5, None)
        self.assertEqual(len(log.kinds()), 1)

    def test_a_hidden_unknown_write_explains_a_generation_and_nothing_else_does(self):
        for outcome, expected in ((UNKNOWN, []), (REFUSED, [kinds.CONTRADICTION])):
            log = Log()
            log.write(0, 1)
            log.write(2, 3, outcome=outcome)
            last = log.write(4, 5)
            log.read(6, 7, last, generation=3)
            self.assertEqual(log.kinds(), expected)

    def test_two_writes_with_one_generation(self):
        log = Log()
        log.write(0, 1, None)
        log.write(2, 3, 1)
        log.write(4, 5, 1)
        self.assertEqual(log.kinds(), [kinds.GUARD])

    def test_a_consumer_that_must_not_exist(self):
        log = Log()
        log.write(0, 1, None)
        log.write(2, 3, None)
        self.assertEqual(log.kinds(), [kinds.GUARD])

    def test_a_right_generation_is_not_refused(self):
        log = Log()
        log.write(0, 1, None)
        log.write(2, 3, 1, outcome=REFUSED, note="placement.concurrent_update")
        self.assertEqual(log.kinds(), [kinds.CONTRADICTION])

    def test_a_delete_that_found_nothing(self):
        log = Log()
        log.write(0, 1)
        log.release(2, 3, outcome=REFUSED, status=404)
        self.assertEqual(log.kinds(), [kinds.CONTRADICTION])

    def test_half_of_a_request(self):
        log = Log()
        both = log.write_two(0, 1)
        log.read(2, 3, both)
        log.read(2, 3, None, consumer=D)
        self.assertEqual(log.kinds(), [kinds.HALF])

    def test_half_of_a_request_of_unknown_outcome(self):
        log = Log()
        both = log.write_two(0, 1, UNKNOWN)
        log.read(2, 3, both)
        log.read(4, 5, None, consumer=D)
        self.assertEqual(log.kinds(), [kinds.HALF])

    def test_a_request_of_unknown_outcome_is_done_whole_or_not_at_all(self):
        for shown in (True, False):
            log = Log()
            both = log.write_two(0, 1, UNKNOWN)
            log.read(2, 3, both if shown else None)
            log.read(4, 5, both if shown else None, consumer=D)
            self.assertEqual(log.kinds(), [])

    def test_a_consumer_that_gives_up_in_a_request_that_was_done(self):
        log = Log()
        first = log.write(0, 1)
        both = log.write_two(2, 3, UNKNOWN, {C: {}, D: TWO})
        log.read(4, 5, both, consumer=D)
        log.read(6, 7, first)
        self.assertEqual(len(log.kinds()), 1)

    def test_the_list_of_a_provider_shows_all_its_consumers(self):
        listed = {C: {"generation": 1, "resources": {"VCPU": 1}}}
        for shown, expected in ((listed, []), ({}, [kinds.LOST])):
            log = Log()
            log.write(0, 1)
            response = {"generations": {P: 1}, "consumers": {P: shown}}
            log.add("read-allocations", 2, 3, {"provider": P}, response=response)
            self.assertEqual(log.kinds(), expected)

    def test_violations_name_the_operations(self):
        log = Log()
        first = log.write(0, 1)
        second = log.write(2, 3)
        read = log.read(4, 5, first)
        (violation,) = Consumers(log.history, [C], 100).violations()
        self.assertEqual(violation.operations, [read, first, second])


class ProviderTest(unittest.TestCase):
    def setUp(self):
        self.log = Log()

    def read(self, begin, end, generation, replica="r0", **more):
        response = {"generations": {P: generation}} | {name: {P: value} for name, value in more.items()}
        kind = f"read-{next(iter(more), 'itself')}"
        return self.log.add(kind, begin, end, {"provider": P}, response=response, replica=replica)

    def write(self, begin, end, generation, outcome=OK):
        request = {"provider": P, "generation": generation}
        operation = self.log.add("write-inventories", begin, end, request, outcome)
        if outcome == OK:
            operation.response = {"generations": {P: generation + 1}, "mark": {P: operation.number}}
        return operation

    def kinds(self):
        return [violation.kind for violation in Providers(self.log.history, {P: 0}, [P]).violations()]

    def test_claims_and_writes_are_counted(self):
        self.log.write(0, 1)
        self.read(2, 3, 1)
        self.write(4, 5, 1)
        self.read(6, 7, 2, mark=2)
        self.assertEqual(self.kinds(), [])

    def test_behind_what_was_acknowledged(self):
        self.log.write(0, 1)
        self.read(2, 3, 0)
        self.assertEqual(self.kinds(), [kinds.STALE])

    def test_behind_what_was_acknowledged_since_a_read(self):
        self.log.write(0, 1, outcome=UNKNOWN)
        self.read(2, 3, 1)
        self.log.write(4, 5)
        self.read(6, 7, 1)
        self.assertEqual(self.kinds(), [kinds.STALE])

    def test_back_at_one_replica_and_behind_at_another(self):
        self.log.write(0, 9)
        self.read(1, 2, 1)
        self.read(3, 4, 0)
        self.read(5, 6, 0, replica="r1")
        self.assertEqual(self.kinds(), [kinds.BACK, kinds.STALE])

    def test_ahead_of_all_that_was_asked(self):
        self.log.write(0, 1, outcome=REFUSED)
        self.read(2, 3, 1)
        self.assertEqual(self.kinds(), [kinds.AHEAD])

    def test_a_generation_with_two_contents(self):
        self.write(0, 1, 0)
        self.write(2, 3, 0)
        self.assertIn(kinds.TWICE, self.kinds())

    def test_old_inventories(self):
        first = self.write(0, 1, 0)
        second = self.write(2, 3, 1)
        self.read(4, 5, 3, mark=first.number)
        self.read(6, 7, 3, mark=second.number)
        self.assertIn(kinds.STALE, self.kinds())

    def test_old_traits(self):
        request = {"provider": P, "generation": 0, "traits": ["CUSTOM_A"]}
        self.log.add("write-traits", 0, 1, request, response={"generations": {P: 1}, "traits": {P: ["CUSTOM_A"]}})
        self.read(2, 3, 1, traits=["CUSTOM_A"])
        self.assertEqual(self.kinds(), [])
        self.read(4, 5, 1, traits=[])
        self.assertIn(kinds.STALE, self.kinds())


class CapacityTest(unittest.TestCase):
    def kinds(self, log):
        return [violation.kind for violation in capacity.violations(log.history, [P])]

    def test_a_usage_above_the_capacity(self):
        log = Log()
        log.add("read-usages", 0, 1, {"provider": P}, response={"usages": {P: {"VCPU": 17}}})
        self.assertEqual(self.kinds(log), [kinds.OVERSOLD])

    def test_what_reads_prove_to_be_held_at_one_time(self):
        for apart, expected in ((False, [kinds.OVERSOLD]), (True, [])):
            log = Log()
            shift = 10 if apart else 0
            for consumer, begin in ((C, 0), (D, shift)):
                write = log.write(begin, begin + 1, held={P: {"VCPU": 9}}, consumer=consumer)
                log.read(begin + 4, begin + 5, write, consumer=consumer)
            self.assertEqual(self.kinds(log), expected)

    def test_sums_of_the_database(self):
        log = Log()
        log.add("sql-sums", 0, 1, {}, response={"oversold": ["a"], "sums": ["b"], "shared": ["c"]})
        self.assertEqual(self.kinds(log), [kinds.OVERSOLD, kinds.SUMS, kinds.SHARED])


class PlanTest(unittest.TestCase):
    def setUp(self):
        self.log = Log()
        self.world = types.SimpleNamespace(planned={"h1": P, "h2": Q})

    def create(self, begin, end, stack="s", group=None, outcome=OK, places=None):
        request = {"stack": stack, "servers": ["a"], "group": group, "apart": False}
        response = {"plan": {"id": f"plan-{stack}", "placements": places or {"a": "h1"}}}
        return self.log.add("plan-create", begin, end, request, outcome, response=response)

    def look(self, begin, end, found=True, places=None):
        request = {"stack": "s", "plan": "plan-s"}
        if not found:
            return self.log.add("plan-read", begin, end, request, REFUSED, status=404)
        response = {"plan": {"id": "plan-s", "placements": places or {"a": "h1"}}}
        return self.log.add("plan-read", begin, end, request, response=response)

    def hold(self, begin, end, state):
        request = {"stack": "s", "server": "a"}
        return self.log.add("hold-read", begin, end, request, response={"state": state})

    def delete(self, begin, end, outcome=OK):
        return self.log.add("plan-delete", begin, end, {"stack": "s"}, outcome)

    def kinds(self):
        return [violation.kind for violation in plan_violations(self.log.history, self.world)]

    def test_a_plain_life_is_right(self):
        self.create(0, 1)
        self.look(2, 3)
        self.hold(4, 5, {"allocations": {P: {"VCPU": 2, "MEMORY_MB": 1024}}})
        self.delete(6, 7)
        self.look(8, 9, found=False)
        self.assertEqual(self.kinds(), [])

    def test_lost(self):
        self.create(0, 1)
        self.look(2, 3, found=False)
        self.assertEqual(self.kinds(), [kinds.LOST])

    def test_shown_after_its_deletion(self):
        self.create(0, 1)
        self.delete(2, 3)
        self.look(4, 5)
        self.assertEqual(self.kinds(), [kinds.STALE])

    def test_refused_and_there(self):
        self.create(0, 1, outcome=REFUSED)
        self.look(2, 3)
        self.assertEqual(self.kinds(), [kinds.REFUSED_APPLIED])

    def test_moved_by_nobody(self):
        self.create(0, 1)
        self.look(2, 3, places={"a": "h2"})
        self.assertEqual(self.kinds(), [kinds.PLAN])

    def test_held_elsewhere_or_not_at_all(self):
        self.create(0, 1)
        self.hold(2, 3, {"allocations": {Q: {"VCPU": 2, "MEMORY_MB": 1024}}})
        self.hold(4, 5, None)
        self.assertEqual(self.kinds(), [kinds.PLAN, kinds.LOST])

    def test_two_groups_on_one_host(self):
        self.create(0, 1, "s", "gold")
        self.create(2, 3, "t", "silver")
        self.log.add("plan-delete", 6, 7, {"stack": "s"})
        self.log.add("plan-delete", 6, 7, {"stack": "t"})
        self.assertEqual(self.kinds(), [kinds.SHARED])


class AnswerTest(unittest.TestCase):
    def setUp(self):
        self.log = Log()

    def kinds(self, *windows):
        return [violation.kind for violation in answers.violations(self.log.history, list(windows), after=5)]

    def test_a_503_belongs_to_a_fault_of_its_replica(self):
        self.log.add("read-consumer", 10, 11, {}, UNKNOWN, status=503, retry_after="1")
        self.assertEqual(self.kinds(), [kinds.OUTSIDE])
        self.assertEqual(self.kinds(Window("f", 5, 6, 6)), [])
        self.assertEqual(self.kinds(Window("f", 1, 2, 2)), [kinds.OUTSIDE])
        self.assertEqual(self.kinds(Window("f", 12, 13, 13)), [kinds.OUTSIDE])
        self.assertEqual(self.kinds(Window("f", 5, 6, 6, ["r1"])), [kinds.OUTSIDE])

    def test_a_503_says_when_to_ask_again(self):
        self.log.add("read-consumer", 10, 11, {}, UNKNOWN, status=503)
        self.assertEqual(self.kinds(Window("f", 5, 6, 6)), [kinds.STATUS])

    def test_a_500_is_never_right(self):
        self.log.add("read-consumer", 10, 11, {}, UNKNOWN, status=500)
        self.assertEqual(self.kinds(Window("f", 5, 6, 6)), [kinds.STATUS])

    def test_recoveries_are_counted_from_the_return(self):
        self.log.read(0, 9, None)
        self.log.write(8, 12)
        self.log.read(10, 10.5, None, replica="r1")
        found = answers.recoveries(self.log.history, [Window("f", 5, 8, 9)], ["r0", "r1"])
        self.assertEqual([(r.read, r.write) for r in found], [(1, 4), (2.5, None)])
        self.assertEqual(len(answers.stuck(found, 3)), 2)


if __name__ == "__main__":
    unittest.main()
