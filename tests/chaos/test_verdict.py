"""What is allowed of a deposed primary, and sums that have to agree, on histories written by hand."""

import types
import unittest

import capacity
import verdict
import violations as kinds
from answers import Window
from history import OK, REFUSED, UNKNOWN
from providers import Providers
from test_checkers import C, P, Log

WORLD = types.SimpleNamespace(consumers=[C], generations={}, hosts=[], providers=[], planned={})


class DeposedTest(unittest.TestCase):
    """The standby is promoted at 10; r0 reaches nothing but the old primary until 20."""

    def setUp(self):
        self.log = Log()
        self.first = self.log.write(0, 1)
        self.log.write(11, 12, replica="r1")
        self.window = Window("split-brain", 9, 11, 30, promoted=10, deposed={"r0": 20, "r1": 10})

    def judge(self, **allowed) -> verdict.Verdict:
        parameters = verdict.Parameters(deposed=1, **allowed)
        return verdict.judge(self.log.history, WORLD, [self.window], [], parameters)

    def found(self, **allowed) -> list[str]:
        return [violation.kind for violation in self.judge(**allowed).violations]

    def test_a_stale_read_is_counted_while_nothing_else_can_be_reached(self):
        self.log.read(15, 16, self.first)
        judged = self.judge()
        self.assertEqual((judged.violations, judged.believed, judged.stale), ([], 1, 1))

    def test_a_stale_read_later_or_elsewhere_is_a_violation(self):
        for begin, replica in ((22, "r0"), (15, "r1")):
            self.setUp()
            self.log.read(begin, begin + 1, self.first, replica=replica)
            self.assertEqual(len(self.found()), 1)

    def test_a_lease_ends_it_sooner(self):
        self.log.read(15, 16, self.first)
        self.assertEqual(self.found(lease=10), [])
        self.assertEqual(len(self.found(lease=3)), 1)

    def test_a_refusal_by_a_deposed_primary_says_nothing(self):
        self.log.write(15, 16, 2, outcome=REFUSED, note="placement.concurrent_update")
        self.assertEqual(self.found(), [])

    def test_a_write_that_a_deposed_primary_acknowledged_has_to_be_there(self):
        lost = self.log.write(15, 16)
        self.log.read(40, 41, self.log.history.operations[1], generation=2)
        self.assertEqual(self.judge().violations[0].operations[-1], lost)


class SumsTest(unittest.TestCase):
    def setUp(self):
        self.log = Log()

    def usage(self, begin, end, generation, used):
        response = {"generations": {P: generation}, "usages": {P: {"VCPU": used}}}
        self.log.add("read-usages", begin, end, {"provider": P}, response=response)

    def kinds(self):
        return [violation.kind for violation in Providers(self.log.history, {P: 1}, [P]).violations()]

    def test_usage_may_shrink_under_one_generation_and_not_grow(self):
        self.usage(0, 1, 1, 5)
        self.usage(2, 3, 1, 3)
        self.assertEqual(self.kinds(), [])
        self.usage(4, 5, 1, 4)
        self.assertEqual(self.kinds(), [kinds.SUMS])

    def list(self, begin, end, generation, used):
        listed = {C: {"generation": 1, "resources": {"VCPU": used}}}
        response = {"generations": {P: generation}, "consumers": {P: listed}}
        self.log.add("read-allocations", begin, end, {"provider": P}, response=response)

    def test_usage_after_a_list_of_allocations(self):
        self.list(0, 1, 1, 1)
        self.usage(2, 3, 1, 2)
        self.assertEqual(self.kinds(), [kinds.SUMS])

    def test_a_list_of_allocations_may_be_newer_than_its_generation(self):
        self.usage(0, 1, 1, 1)
        self.list(2, 3, 1, 2)
        self.assertEqual(self.kinds(), [])

    def test_sums_at_the_end(self):
        final = {"totals": {"p": {"VCPU": 3}}, "used": {P: {"VCPU": 3}}}
        self.log.add("final", 0, 1, {}, response=final)
        for used, expected in ((3, []), (2, [kinds.SUMS, kinds.SUMS])):
            log = Log()
            log.history.operations = list(self.log.history.operations)
            log.add("read-project-usages", 2, 3, {"project": "p"}, response={"totals": {"VCPU": used}})
            log.add("read-candidates", 2, 3, {}, response={"usages": {P: {"VCPU": used}}})
            found = capacity.violations(log.history, [P])
            self.assertEqual([violation.kind for violation in found], expected)


class CountTest(unittest.TestCase):
    def test_operations_by_kind_and_outcome(self):
        log = Log()
        log.write(0, 1)
        log.write(0, 1, outcome=UNKNOWN)
        log.read(2, 3, None)
        self.assertEqual(
            verdict.counts(log.history), {"claim": {OK: 1, UNKNOWN: 1}, "read-consumer": {OK: 1}}
        )  # fmt: skip
        self.assertEqual(verdict.acknowledged_writes(log.history), 1)
        self.assertEqual(verdict.unknown_writes(log.history), 1)


if __name__ == "__main__":
    unittest.main()
