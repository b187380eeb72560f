"""All checkers over one history."""

import dataclasses
import math
import time

import answers
import capacity
import plans
from answers import Window
from consumers import Consumers
from history import OK, REFUSED, UNKNOWN, History, Operation
from providers import Providers
from violations import Violation
from world import World


@dataclasses.dataclass
class Parameters:
    """What is allowed.

    after:       seconds after a fault in which 503 and broken connections are its consequence.
    bound:       seconds after the return of what was away within which a replica must answer.
    deposed:     seconds for which a deposed primary may still be believed by reads once the new one can
                 be reached.
    lease:       seconds after which reads from a deposed primary end; None for never.
    lifetime:    see consumers.py.
    """

    after: float = 2.0
    bound: float = 60.0
    deposed: float = 1.5
    lease: float | None = None
    lifetime: float = 120.0


@dataclasses.dataclass
class Verdict:
    """What was found. `believed` counts answers by a deposed primary; `stale` what they contradict."""

    violations: list[Violation]
    believed: int
    stale: int
    recoveries: list[answers.Recovery]
    seconds: float


def judge(history: History, world: World, windows: list[Window], names: list[str], allowed: Parameters) -> Verdict:
    began = time.monotonic()
    found = answers.violations(history, windows, allowed.after)
    recoveries = answers.recoveries(history, windows, names)
    found += answers.stuck(recoveries, allowed.bound)
    believed = {o.number for o in history.operations if _is_believed(o, windows, allowed)}
    trusted = _without(history, believed) if believed else history
    contradictions = _contradictions(trusted, world, allowed)
    # How much they contradict is told, and is no violation.
    stale = len(_contradictions(history, world, allowed)) - len(contradictions) if believed else 0
    seconds = time.monotonic() - began
    return Verdict(found + contradictions, len(believed), max(stale, 0), recoveries, seconds)


def _contradictions(history: History, world: World, allowed: Parameters) -> list[Violation]:
    return [
        *Consumers(history, world.consumers, allowed.lifetime).violations(),
        *Providers(history, world.generations, world.hosts).violations(),
        *capacity.violations(history, world.providers),
        *plans.violations(history, world),
    ]


def _is_believed(operation: Operation, windows: list[Window], allowed: Parameters) -> bool:
    """Whether an answer may come from a deposed primary that nobody can know to be one.

    Acknowledged writes are not among them: a deposed primary can commit nothing.
    """
    if operation.outcome == OK and answers.what(operation) != answers.READS:
        return False
    if operation.outcome not in (OK, REFUSED):
        return False
    for window in windows:
        until = window.deposed.get(operation.replica, -math.inf) + allowed.deposed
        if allowed.lease is not None:
            until = min(until, window.promoted + allowed.lease)
        if window.promoted < operation.end and operation.begin <= until:
            return True
    return False


def _without(history: History, numbers: set[int]) -> History:
    """A history in which nothing is concluded from these answers."""
    other = History()
    for operation in history.operations:
        if operation.number in numbers:
            if operation.outcome == OK:
                operation = dataclasses.replace(operation, outcome=UNKNOWN, end=math.inf, response=None)
            else:
                operation = dataclasses.replace(operation, status=0, note="")
        other.operations.append(operation)
    return other


def counts(history: History) -> dict[str, dict[str, int]]:
    """Operations by kind and outcome."""
    found: dict[str, dict[str, int]] = {}
    for operation in history.operations:
        of = found.setdefault(operation.kind, {})
        of[operation.outcome] = of.get(operation.outcome, 0) + 1
    return dict(sorted(found.items()))


def statuses(history: History) -> dict[str, int]:
    """Answers by status; those that never came under `none`."""
    found: dict[str, int] = {}
    for operation in history.operations:
        if operation.kind not in ("final", "sql-sums"):
            key = str(operation.status or "none")
            found[key] = found.get(key, 0) + 1
    return dict(sorted(found.items()))


def acknowledged_writes(history: History) -> int:
    return sum(o.outcome == OK and answers.what(o) == answers.WRITES for o in history.operations)


def unknown_writes(history: History) -> int:
    return sum(o.outcome == UNKNOWN and "writes" in o.request for o in history.operations)
