"""All checkers over one history."""

import dataclasses
import time

import answers
import capacity
import plans
from answers import Window
from consumers import Consumers
from history import OK, UNKNOWN, History
from providers import Providers
from violations import STALE, Violation
from world import World


@dataclasses.dataclass
class Parameters:
    """What is allowed.

    after:       seconds after a fault in which 503 and broken connections are its consequence.
    bound:       seconds after the return of what was away within which a replica must answer.
    deposed:     seconds for which a deposed primary may still be believed by reads once the new one can
                 be reached.
    lifetime:    see consumers.py.
    """

    after: float = 2.0
    bound: float = 60.0
    deposed: float = 1.5
    lifetime: float = 120.0


@dataclasses.dataclass
class Verdict:
    violations: list[Violation]
    allowed: list[Violation]
    recoveries: list[answers.Recovery]
    seconds: float


def judge(history: History, world: World, windows: list[Window], names: list[str], allowed: Parameters) -> Verdict:
    began = time.monotonic()
    found = answers.violations(history, windows, allowed.after)
    found += Consumers(history, world.consumers, allowed.lifetime).violations()
    found += Providers(history, world.generations, world.hosts).violations()
    found += capacity.violations(history, world.providers)
    found += plans.violations(history, world)
    recoveries = answers.recoveries(history, windows, names)
    found += answers.stuck(recoveries, allowed.bound)
    for violation in found:
        violation.allowed = violation.kind == STALE and _is_allowed(violation, windows, allowed.deposed)
    return Verdict(
        [violation for violation in found if not violation.allowed],
        [violation for violation in found if violation.allowed],
        recoveries, time.monotonic() - began,
    )  # fmt: skip


def _is_allowed(violation: Violation, windows: list[Window], seconds: float) -> bool:
    """Whether a stale read may come from a deposed primary that is still believed."""
    read = violation.operations[0]
    return any(
        window.begin <= read.begin <= window.deposed.get(read.replica, -1) + seconds for window in windows
    )


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
    return sum(o.outcome == UNKNOWN and "writes" in o.asked for o in history.operations)
