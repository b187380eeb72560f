"""Is each consumer linearizable, and each write of several consumers done whole or not at all?

The state of a consumer is None, or (generation, tag, allocations). The tag says which write made it,
so a read shows exactly one write; generations rise by one with each write of a consumer that exists
and begin with 1, so that no write is hidden between two reads.
"""

import collections
import dataclasses
import math

from history import OK, REFUSED, UNKNOWN, UNREACHED, History, Operation
from linear import IMPOSSIBLE, Failure, Step, Undecided, check
from violations import (
    CONTRADICTION,
    GUARD,
    HALF,
    INVENTED,
    LOST,
    REFUSED_APPLIED,
    STALE,
    UNDECIDED,
    Violation,
)

# The tag and the allocations of a write that no read has shown.
UNSEEN = "?"
CONCURRENT_UPDATE = "placement.concurrent_update"


@dataclasses.dataclass
class Reading:
    """What a read says of one consumer: of all that it holds, or of one provider only."""

    operation: Operation
    consumer: str
    provider: str | None
    state: dict | None


class Consumers:
    """The checker of all consumers of a history."""

    def __init__(self, history: History, known: list[str], lifetime: float) -> None:
        """`known` are consumers whose absence from the list of a provider means something.

        lifetime: seconds after which a write of unknown outcome cannot take effect any more; only
        for consumers that are undecided without it.
        """
        self._lifetime = lifetime
        self._known = known
        self._by_tag = {operation.tag: operation for operation in history.operations}
        self._writes: dict[str, list[Operation]] = collections.defaultdict(list)
        self._readings: dict[str, list[Reading]] = collections.defaultdict(list)
        # When a write was first seen, and in which consumers.
        self._seen_by: dict[str, float] = {}
        self._seen_in: dict[str, set[str]] = collections.defaultdict(set)
        for operation in history.operations:
            for consumer in operation.request.get("writes", {}):
                self._writes[consumer].append(operation)
        for operation in history.operations:
            if operation.outcome == OK:
                self._note(operation, known)
        self.undecided = 0

    def _note(self, operation: Operation, known: list[str]) -> None:
        response = operation.response or {}
        if "consumer" in operation.request and "state" in response:
            self._read(Reading(operation, operation.request["consumer"], None, response["state"]))
        for consumer, state in response.get("states", {}).items():
            self._read(Reading(operation, consumer, None, state))
        for provider, listed in response.get("consumers", {}).items():
            for consumer in {*known, *(c for c in listed if c in self._writes)}:
                self._read(Reading(operation, consumer, provider, listed.get(consumer)))

    def _read(self, reading: Reading) -> None:
        self._readings[reading.consumer].append(reading)
        if reading.provider is None and reading.state is not None:
            tag = reading.state["tag"]
            self._seen_by[tag] = min(self._seen_by.get(tag, math.inf), reading.operation.end)
            self._seen_in[tag].add(reading.consumer)

    def violations(self) -> list[Violation]:
        found = []
        # What plans hold is not written by clients, and is the matter of plans.py.
        for consumer in sorted({*self._writes, *self._known}):
            try:
                failures = check(self._steps(consumer, math.inf), None)
            except Undecided:
                found += self._with_lifetime(consumer)
                continue
            found += [self._explain(consumer, failure) for failure in failures]
        return found

    def _with_lifetime(self, consumer: str) -> list[Violation]:
        try:
            failures = check(self._steps(consumer, self._lifetime), None)
        except Undecided:
            self.undecided += 1
            words = "too many writes of unknown outcome to follow"
            return [Violation(UNDECIDED, f"consumer {consumer}", words)]
        return [self._explain(consumer, failure) for failure in failures]

    def _steps(self, consumer: str, lifetime: float) -> list[Step]:
        steps = []
        for operation in self._writes[consumer]:
            write = operation.request["writes"][consumer]
            if operation.outcome in (OK, UNKNOWN):
                step = self._write(operation, write)
                steps.append(step)
                if step.end == math.inf and lifetime < math.inf:
                    step.expires = operation.begin + lifetime
            elif operation.outcome == REFUSED and _is_about(operation, consumer):
                refusal = _refusal(operation, write)
                if refusal:
                    steps.append(Step(operation, operation.begin, operation.end, refusal, pure=True))
        for reading in self._readings[consumer]:
            operation = reading.operation
            steps.append(Step(operation, operation.begin, operation.end, _matches(reading), pure=True))
        return sorted(steps, key=lambda step: step.begin)

    def _write(self, operation: Operation, write: dict) -> Step:
        # A read that shows it says that it has taken effect, at all of its consumers.
        end = min(operation.took_effect_by(), self._seen_by.get(operation.tag, math.inf))
        seen = operation.tag in self._seen_by
        tag = operation.tag if seen or operation.outcome == OK else UNSEEN
        held = canonical(write["allocations"]) if tag != UNSEEN else UNSEEN
        guard = write["guard"]
        if not write["allocations"]:
            held = ()

        def apply(state):
            if not _admits(guard, state):
                return IMPOSSIBLE
            if held == ():
                return None
            return (1 if state is None else state[0] + 1, tag, held)

        alike = (guard, held) if end == math.inf else None
        return Step(operation, operation.begin, end, apply, alike=alike)

    def _explain(self, consumer: str, failure: Failure) -> Violation:
        """Say in words what cannot be."""
        operation = failure.step.operation
        thing = f"consumer {consumer}"
        possible = [self._words(state) for state in failure.states[:4]]
        could = f"it could only be {' or '.join(possible)}"
        involved = [operation, *self._writers(failure.states), *self._others(failure)]
        if not failure.step.pure:
            words = f"acknowledged, though {could}"
            return Violation(GUARD, thing, words, involved)
        if operation.outcome == REFUSED:
            return Violation(CONTRADICTION, thing, f"refused for its generation, though {could}", involved)
        state = self._state_shown(consumer, operation)
        shown = self._by_tag.get(state["tag"]) if state and "tag" in state else None
        if shown is not None and shown not in involved:
            involved.insert(1, shown)
        words = f"a read shows {self._shown_words(state)}, though {could}"
        kind = self._kind(consumer, failure, state, shown)
        return Violation(kind, thing, words, involved)

    def _kind(self, consumer: str, failure: Failure, state: dict | None, shown: Operation | None) -> str:
        operation = failure.step.operation
        if state and "tag" in state:
            if shown is None or consumer not in shown.request.get("writes", {}):
                return INVENTED
            if shown.outcome in (REFUSED, UNREACHED):
                return REFUSED_APPLIED
            if canonical(shown.request["writes"][consumer]["allocations"]) != canonical(state["allocations"]):
                return INVENTED
        missing = self._writers(failure.states)
        later = [r for r in self._readings[consumer] if r.operation.begin >= operation.begin]
        for write in missing:
            if len(write.request["writes"]) > 1 and self._seen_in[write.tag] - {consumer}:
                if not any(r.state and r.state.get("tag") == write.tag for r in self._readings[consumer]):
                    return HALF
        latest = {write.tag for write in missing}
        if state and state.get("tag") in latest:
            # The write that must be shown is shown, but with another generation.
            return CONTRADICTION
        # Whether what is missing here is shown by anybody later.
        if any(r.provider is None and r.state and r.state["tag"] in latest for r in later):
            return STALE
        if shown is not None and missing and shown.begin > max(write.begin for write in missing):
            return CONTRADICTION
        if any(r.provider is None and not _same(r.state, state) for r in later):
            return STALE if missing else CONTRADICTION
        return LOST if missing else CONTRADICTION

    def _writers(self, states: list) -> list[Operation]:
        tags = {state[1] for state in states if state is not None}
        found = [self._by_tag[tag] for tag in tags if tag in self._by_tag]
        return sorted(found, key=lambda operation: operation.number)[:4]

    def _others(self, failure: Failure) -> list[Operation]:
        ended = [step.operation for step in failure.under_way if not step.pure and step.end < math.inf]
        return ended[:3]

    def _state_shown(self, consumer: str, operation: Operation) -> dict | None:
        for reading in self._readings[consumer]:
            if reading.operation is operation:
                return reading.state
        return None

    @staticmethod
    def _words(state) -> str:
        if state is None:
            return "nothing"
        return f"generation {state[0]} by {state[1]}"

    @staticmethod
    def _shown_words(state: dict | None) -> str:
        if state is None:
            return "nothing"
        return f"generation {state['generation']}" + (f" by {state['tag']}" if "tag" in state else "")


def _is_about(operation: Operation, consumer: str) -> bool:
    """Whether a refusal can be about no other consumer and no provider."""
    return operation.request["writes"].keys() == {consumer} and "provider" not in operation.request


def _admits(guard, state) -> bool:
    if guard == "any":
        return True
    if guard is None:
        return state is None
    if guard == "delete":
        return state is not None
    return state is not None and state[0] == guard


def _refusal(operation: Operation, write: dict):
    """What a refusal says of the state; None if it says nothing."""
    guard = write["guard"]
    if guard == "delete":
        return (lambda state: state if state is None else IMPOSSIBLE) if operation.status == 404 else None
    if CONCURRENT_UPDATE not in operation.note or guard == "any":
        return None
    return lambda state: IMPOSSIBLE if _admits(guard, state) else state


def _matches(reading: Reading):
    shown = reading.state
    if reading.provider is None:
        if shown is None:
            return lambda state: state if state is None else IMPOSSIBLE
        wanted = (shown["generation"], shown["tag"], canonical(shown["allocations"]))
        return lambda state: state if state == wanted else IMPOSSIBLE
    provider = reading.provider
    resources = None if shown is None else tuple(sorted(shown["resources"].items()))

    def apply(state):
        if state is None:
            return state if shown is None else IMPOSSIBLE
        if shown is not None and state[0] != shown["generation"]:
            return IMPOSSIBLE
        if state[2] == UNSEEN or dict(state[2]).get(provider) == resources:
            return state
        return IMPOSSIBLE

    return apply


def _same(one: dict | None, other: dict | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.get("tag") == other.get("tag") and one["generation"] == other["generation"]


def canonical(allocations: dict) -> tuple:
    """Allocations in a form that can be compared and hashed."""
    return tuple(sorted((provider, tuple(sorted(of.items()))) for provider, of in allocations.items()))
