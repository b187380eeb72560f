"""Generations and contents of providers: never back, never twice, never behind what was acknowledged.

Each acknowledged write raises the generation of the providers that it names by a known amount, so a
read that began after some of them were acknowledged must show at least so many more than a read that
ended before they began; and it can show no more than what was under way or done by then.
"""

import bisect
import collections
import itertools
import math

from history import OK, UNKNOWN, History, Operation
from linear import IMPOSSIBLE, Step, Undecided, check
from violations import AHEAD, BACK, CONTRADICTION, STALE, SUMS, TWICE, UNDECIDED, Violation
from world import CLASSES

# By how much a reshape may raise the generation of the provider whose inventories it writes.
RESHAPE_MOST = 4


class Providers:
    """The checker of these providers over a history."""

    def __init__(self, history: History, generations: dict[str, int], counted: list[str]) -> None:
        """`generations`: of each provider at the beginning. `counted`: whose writes are all known."""
        self._history = history
        self._generations = generations
        self._counted = set(counted)

    def violations(self) -> list[Violation]:
        shown: dict[str, list[tuple[Operation, int]]] = collections.defaultdict(list)
        for operation in self._history.operations:
            if operation.outcome == OK:
                for provider, generation in _generations(operation.response or {}).items():
                    if provider in self._generations:
                        shown[provider].append((operation, generation))
        raised = self._raised()
        found = []
        for provider, reads in shown.items():
            found += self._order(provider, reads, raised.get(provider, []))
        for kind in ("mark", "traits"):
            found += self._contents(kind)
            found += self._registers(kind)
        return found + self._usages()

    def _raised(self) -> dict[str, list[tuple[Operation, int, int]]]:
        """By provider: what raises its generation, by how much at the least, and at the most."""
        raised: dict[str, list] = {provider: [] for provider in self._counted}
        for operation in self._history.operations:
            request = operation.request
            writes = request.get("writes", {}).values()
            if operation.outcome not in (OK, UNKNOWN) or not (writes or "provider" in request):
                continue
            named = {provider for write in writes for provider in write["allocations"]}
            # A consumer that gives up all may have had something anywhere.
            anywhere = any(not write["allocations"] and write["guard"] != "delete" for write in writes)
            for provider in self._counted if anywhere else {*named, request.get("provider")} & self._counted:
                least, most = self._raises(operation, provider, provider in named, anywhere)
                if most:
                    raised[provider].append((operation, least, most))
        return raised

    def _order(self, provider: str, reads: list[tuple[Operation, int]], raised: list) -> list[Violation]:
        counted = provider in self._counted
        done = [(o, least, most) for o, least, most in raised if o.outcome == OK]
        least_ended = _Sum((o.end, least) for o, least, _ in done)
        least_begun = _Sum((o.begin, least) for o, least, _ in done)
        most_ended = _Sum((o.end, most) for o, _, most in done)
        most_begun = _Sum((o.begin, most) for o, _, most in raised)

        initial = self._generations[provider]
        # Of all reads that have ended: the highest, and what bounds follow from each.
        highest, highest_read = initial, None
        low, high = initial, initial
        ended = sorted(reads, key=lambda read: read[0].end)
        position = 0
        found = []
        for operation, generation in sorted(reads, key=lambda read: read[0].begin):
            while position < len(ended) and ended[position][0].end < operation.begin:
                other, other_generation = ended[position]
                position += 1
                if other_generation > highest:
                    highest, highest_read = other_generation, other
                low = max(low, other_generation - least_begun.until(other.end))
                high = min(high, other_generation - most_ended.before(other.begin))
            least = low + least_ended.before(operation.begin)
            most = high + most_begun.until(operation.end)
            thing = f"provider {provider}"
            if generation < highest:
                same = highest_read is not None and highest_read.replica == operation.replica
                words = f"generation {generation} is shown after {highest}"
                involved = [operation, highest_read] if highest_read else [operation]
                found.append(Violation(BACK if same else STALE, thing, words, involved))
            elif counted and generation < least:
                words = f"generation {generation} is shown where {least} was acknowledged at the least"
                found.append(Violation(STALE, thing, words, [operation, *_last(done, operation)]))
            elif counted and generation > most:
                words = f"generation {generation} is shown where {most} is the most that was asked for"
                found.append(Violation(AHEAD, thing, words, [operation, *_last(raised, operation)]))
        return found

    @staticmethod
    def _raises(operation: Operation, provider: str, named: bool, anywhere: bool) -> tuple[int, int]:
        least, most = int(named), int(named) + int(anywhere)
        if operation.request.get("provider") == provider:
            if operation.request.get("reshape"):
                return max(least, 1), most + RESHAPE_MOST
            if operation.kind == "write-inventories":
                return 1, 1
            if operation.kind == "write-traits":
                return 0, 1
        return least, most

    def _contents(self, kind: str) -> list[Violation]:
        """Whether one generation had two contents."""
        found = []
        first: dict[tuple[str, int], tuple] = {}
        for operation in self._history.operations:
            if operation.outcome != OK:
                continue
            for provider in _shown(operation, kind):
                value = _value(operation, kind, provider)
                generation = operation.response["generations"][provider]
                known = first.setdefault((provider, generation), (value, operation))
                if known[0] != value:
                    words = f"generation {generation} has different {kind}: {known[0]} and {value}"
                    found.append(Violation(TWICE, f"provider {provider}", words, [known[1], operation]))
        return found

    def _usages(self) -> list[Violation]:
        """Whether usage grew under one generation: only what gives back leaves it as it was.

        It is compared with earlier sums of the allocations that a provider lists as well.
        """
        shown: dict[tuple, list[tuple[Operation, int]]] = collections.defaultdict(list)
        for operation in self._history.operations:
            if operation.outcome != OK:
                continue
            for provider, usages in _used(operation).items():
                generation = operation.response.get("generations", {}).get(provider)
                if generation is not None and provider in self._counted:
                    for name in CLASSES:
                        shown[provider, generation, name].append((operation, usages.get(name, 0)))
        found = []
        for (provider, generation, name), reads in shown.items():
            ended = sorted(reads, key=lambda read: read[0].end)
            least: tuple[Operation, int] | None = None
            position = 0
            for operation, used in sorted(reads, key=lambda read: read[0].begin):
                while position < len(ended) and ended[position][0].end < operation.begin:
                    if least is None or ended[position][1] < least[1]:
                        least = ended[position]
                    position += 1
                # The generation in a list of allocations may be older than the list: that is meant.
                if least is not None and used > least[1] and "consumers" not in operation.response:
                    words = f"{used} {name} are used under generation {generation}, where it was {least[1]} before"
                    found.append(Violation(SUMS, f"provider {provider}", words, [least[0], operation]))
        return found

    def _registers(self, kind: str) -> list[Violation]:
        """Inventories and traits, each as one value that writes replace."""
        steps: dict[str, list[Step]] = collections.defaultdict(list)
        reads: dict[tuple, float] = {}
        operations = self._history.operations
        for operation in operations:
            for provider in _shown(operation, kind):
                value = _value(operation, kind, provider)
                if operation.kind.startswith("read") or operation.kind == "final":
                    key = (provider, value)
                    reads[key] = min(reads.get(key, math.inf), operation.end)
                    steps[provider].append(_read_step(operation, value))
        for operation in operations:
            provider = operation.request.get("provider")
            written = _written(operation, kind)
            if written is None or operation.outcome not in (OK, UNKNOWN):
                continue
            end = operation.took_effect_by()
            if kind == "mark":
                end = min(end, reads.get((provider, written), math.inf))
            if end < math.inf or (provider, written) in reads:
                alike = ("write", written) if end == math.inf else None
                step = Step(operation, operation.begin, end, lambda _, w=written: w, alike=alike)
                steps[provider].append(step)
        found = []
        for provider, its in steps.items():
            try:
                failures = check(sorted(its, key=lambda step: step.begin), 0 if kind == "mark" else ())
            except Undecided:
                words = f"too many writes of unknown outcome to follow its {kind}"
                found.append(Violation(UNDECIDED, f"provider {provider}", words))
                continue
            for failure in failures:
                operation = failure.step.operation
                value = _value(operation, kind, provider)
                words = f"{kind} {value} is shown where it could only be {failure.states[:4]}"
                involved = [operation, *self._marked(kind, provider, [value, *failure.states])]
                stale = any(o.begin < operation.begin for o in involved[1:])
                found.append(Violation(STALE if stale else CONTRADICTION, f"provider {provider}", words, involved))
        return found

    def _marked(self, kind: str, provider: str, values: list) -> list[Operation]:
        return [
            o for o in self._history.operations
            if o.request.get("provider") == provider and _written(o, kind) in values
        ][:4]  # fmt: skip


class _Sum:
    """Sums of weights up to a time."""

    def __init__(self, entries) -> None:
        entries = sorted(entries)
        self._times = [time for time, _ in entries]
        self._sums = [0, *itertools.accumulate(weight for _, weight in entries)]

    def before(self, time: float) -> int:
        return self._sums[bisect.bisect_left(self._times, time)]

    def until(self, time: float) -> int:
        return self._sums[bisect.bisect_right(self._times, time)]


def _generations(response: dict) -> dict[str, int]:
    shown = dict(response.get("generations", {}))
    state = response.get("state")
    if state:
        shown.update(state.get("generations", {}))
    return shown


def _used(operation: Operation) -> dict[str, dict[str, int]]:
    """What is used of each provider, by usages or by the allocations that it lists."""
    response = operation.response or {}
    used = dict(response.get("usages", {}))
    for provider, listed in response.get("consumers", {}).items():
        sums: collections.Counter = collections.Counter()
        for of in listed.values():
            sums.update(of["resources"])
        used[provider] = sums
    return used


def _shown(operation: Operation, kind: str) -> dict:
    return (operation.response or {}).get(kind, {})


def _value(operation: Operation, kind: str, provider: str):
    value = _shown(operation, kind).get(provider)
    return tuple(value) if isinstance(value, list) else value


def _written(operation: Operation, kind: str):
    if kind == "traits":
        return tuple(sorted(operation.request["traits"])) if "traits" in operation.request else None
    written = operation.kind == "write-inventories" or operation.request.get("reshape")
    return operation.number if written else None


def _read_step(operation: Operation, value) -> Step:
    match = lambda state: state if state == value else IMPOSSIBLE  # noqa: E731
    return Step(operation, operation.begin, operation.end, match, pure=True)


def _last(done: list, operation: Operation) -> list[Operation]:
    """The last writes that began before an operation did."""
    return [o for o, *_ in done if o.end < operation.begin or o.begin < operation.end][-3:]
