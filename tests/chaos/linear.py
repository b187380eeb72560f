"""Is there an order of operations on one thing that explains every answer?

The search of Wing and Gong in Lowe's "just in time" form. All states that the thing could be in are
carried along in the order of time; when an operation has ended, only those remain in which it has
taken effect between its begin and its end. An operation of unknown outcome never ends: it may take
effect at any time after its begin, or never.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable

from history import Operation

# What a step answers that cannot happen in a state.
IMPOSSIBLE = object()
# More possibilities than this are not followed; then the thing is undecided.
MOST_CONFIGURATIONS = 20_000


@dataclasses.dataclass(slots=True, eq=False)
class Step:
    """One operation as seen by one thing.

    apply:  gives the state after it, or IMPOSSIBLE.
    pure:   it changes nothing, so it may take effect as soon as it can.
    alike:  of steps that never end and are alike, the one that began first is taken first.
    expires: when a step that never ends cannot happen any more.
    """

    operation: Operation
    begin: float
    end: float
    apply: Callable[[Hashable], Hashable]
    pure: bool = False
    alike: Hashable = None
    expires: float = math.inf


@dataclasses.dataclass
class Failure:
    """A step that no order explains: the states that were possible, and what else was under way."""

    step: Step
    states: list
    under_way: list[Step]


class Undecided(Exception):
    """There are too many possibilities to follow."""


def check(steps: list[Step], initial: Hashable) -> list[Failure]:
    """Return the steps that no order explains; each is left out for those after it.

    A write that was acknowledged though it was impossible is taken as done nonetheless.
    """
    moments = [(step.begin, 0, number) for number, step in enumerate(steps)]
    moments += [(step.end, 1, number) for number, step in enumerate(steps) if step.end < math.inf]
    moments += [(step.expires, 2, number) for number, step in enumerate(steps) if step.expires < math.inf]
    # At the same time, begins come first: the two may have overlapped.
    moments.sort()
    under_way: dict[int, Step] = {}
    configurations: set[tuple[Hashable, frozenset[int]]] = {(initial, frozenset())}
    optional = {number for number, step in enumerate(steps) if step.end == math.inf}
    failures = []
    for _, what, number in moments:
        step = steps[number]
        if what == 0:
            under_way[number] = step
            continue
        if what == 2:
            del under_way[number]
            configurations = _reduce({(state, done - {number}) for state, done in configurations}, optional)
            continue
        explained = _explain(configurations, number, under_way)
        if not explained:
            states = list({state for state, _ in configurations})
            failures.append(Failure(step, states, [s for s in under_way.values() if s is not step]))
            explained = {(state, done | {number}) for state, done in configurations}
        del under_way[number]
        configurations = _reduce({(state, done - {number}) for state, done in explained}, optional)
    return failures


def _explain(configurations: set, number: int, under_way: dict[int, Step]) -> set:
    """All configurations that can be reached in which the step has taken effect, just so."""
    explained = set()
    seen = set()
    waiting = []
    pure = [other for other, step in under_way.items() if step.pure]
    writes = [other for other, step in under_way.items() if not step.pure]

    def visit(state, done) -> None:
        observed = [r for r in pure if r not in done and under_way[r].apply(state) is not IMPOSSIBLE]
        configuration = (state, done.union(observed)) if observed else (state, done)
        if configuration not in seen:
            seen.add(configuration)
            if number in configuration[1]:
                explained.add(configuration)
            else:
                waiting.append(configuration)
            if len(seen) > MOST_CONFIGURATIONS:
                raise Undecided

    for state, done in configurations:
        if number in done:
            explained.add((state, done))
        else:
            visit(state, done)
    while waiting:
        state, done = waiting.pop()
        taken = set()
        for other in writes:
            if other in done:
                continue
            step = under_way[other]
            if step.end == math.inf and step.alike is not None:
                if step.alike in taken:
                    continue
                taken.add(step.alike)
            after = step.apply(state)
            if after is not IMPOSSIBLE:
                visit(after, done | {other})
    return explained


def _reduce(configurations: set, optional: set[int]) -> set:
    """Leave out what another configuration with the same state and more left to happen covers.

    That is so only for steps that need not happen; what has to happen still is a burden.
    """
    alike: dict[tuple, list[frozenset[int]]] = {}
    for state, done in sorted(configurations, key=lambda one: len(one[1])):
        kept = alike.setdefault((state, done - optional), [])
        if not any(less <= done for less in kept):
            kept.append(done)
    return {(key[0], done) for key, kept in alike.items() for done in kept}
