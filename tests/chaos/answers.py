"""What may be answered when, and how long it takes to be back after a fault."""

import dataclasses
import math

from history import OK, REFUSED, UNKNOWN, UNREACHED, History, Operation
from violations import OUTSIDE, STATUS, STUCK, Violation

READS, WRITES = "read", "write"
# Refusals that the clients here can meet, by what they ask.
ALLOWED_STATUSES = {404, 409, 429}


@dataclasses.dataclass
class Window:
    """A fault: when it began, when what it needs was there again, and when all of it was over.

    replicas:  those that it touches; None for all.
    returned:  when the database was there again (back, thawed, promoted and led to), or the replica
               was started: from then on it is measured how long answers take to come.
    promoted:  when a standby began to be promoted.
    deposed:   a primary was replaced while it was alive: until when it may be all that a replica can
               reach, by replica.
    """

    name: str
    begin: float
    returned: float = math.inf
    end: float = math.inf
    replicas: list[str] | None = None
    promoted: float = math.inf
    deposed: dict[str, float] = dataclasses.field(default_factory=dict)
    measured: bool = True

    def touches(self, operation: Operation, after: float) -> bool:
        if self.replicas is not None and operation.replica not in self.replicas:
            return False
        return operation.begin <= self.end + after and operation.heard >= self.begin


def violations(history: History, windows: list[Window], after: float) -> list[Violation]:
    """Statuses that may not be, and trouble outside of faults.

    after: seconds after the end of a fault in which its consequences may still be met.
    """
    found = []
    for operation in history.operations:
        if operation.kind in ("final", "sql-sums"):
            continue
        status, words = operation.status, f"answered {operation.status}: {operation.note}"
        thing = operation.replica
        if status >= 500 and status != 503:
            found.append(Violation(STATUS, thing, words, [operation]))
        elif status == 503 and not (operation.retry_after or "").isdigit():
            found.append(Violation(STATUS, thing, f"503 without Retry-After: {operation.note}", [operation]))
        elif 400 <= status < 500 and status not in ALLOWED_STATUSES:
            found.append(Violation(STATUS, thing, words, [operation]))
        elif operation.outcome in (UNKNOWN, UNREACHED) and operation.kind != "claim-and-vanish":
            if not any(window.touches(operation, after) for window in windows):
                problem = words if status else f"no answer: {operation.note}"
                found.append(Violation(OUTSIDE, thing, problem, [operation]))
    return found


@dataclasses.dataclass
class Recovery:
    """After a fault: seconds until the first good read and write of a replica; None for none."""

    fault: str
    replica: str
    read: float | None
    write: float | None


def recoveries(history: History, windows: list[Window], names: list[str]) -> list[Recovery]:
    """For each fault and each replica that it touched, how long answers took to come.

    Reads and writes of any client count, if they ended after the return; also those that had begun
    before and were kept waiting.
    """
    found = []
    for window in windows:
        if not window.measured or window.returned == math.inf:
            continue
        for name in window.replicas or names:
            first: dict[str, float | None] = {READS: None, WRITES: None}
            for operation in history.operations:
                kind = what(operation)
                good = operation.outcome in (OK, REFUSED) and operation.replica == name and kind
                if good and operation.end > window.returned:
                    took = operation.end - window.returned
                    first[kind] = took if first[kind] is None else min(took, first[kind])
            found.append(Recovery(window.name, name, first[READS], first[WRITES]))
    return found


def what(operation: Operation) -> str:
    """Whether it is a read or a write; empty for neither."""
    if operation.kind in ("final", "sql-sums", "build"):
        return ""
    if operation.kind.startswith("read") or operation.kind.endswith("-read"):
        return READS
    # A refusal of a write shows no more than that the database can be read.
    return WRITES if operation.outcome == OK else ""


def stuck(found: list[Recovery], bound: float) -> list[Violation]:
    """Recoveries that took longer than the bound."""
    late = []
    for recovery in found:
        for kind, took in ((READS, recovery.read), (WRITES, recovery.write)):
            if took is None or took > bound:
                delay = "never" if took is None else f"after {took:.1f} s"
                words = f"the first good {kind} after {recovery.fault} came {delay}; the bound is {bound:g} s"
                late.append(Violation(STUCK, recovery.replica, words))
    return late


def gap(history: History, kind: str, begin: float, end: float) -> tuple[float, float]:
    """The longest time between these without a good answer of a kind from any replica: when, how long."""
    ends = [o.end for o in history.operations if o.outcome == OK and what(o) == kind]
    ends = [begin, *sorted(time for time in ends if begin < time < end), end]
    longest = max(range(1, len(ends)), key=lambda number: ends[number] - ends[number - 1])
    return ends[longest - 1], ends[longest] - ends[longest - 1]


def unanswered(history: History, windows: list[Window], after: float) -> dict[str, dict[str, int]]:
    """By fault: reads and writes that were answered 503 or not at all."""
    found: dict[str, dict[str, int]] = {}
    for operation in history.operations:
        if operation.outcome not in (UNKNOWN, UNREACHED) or operation.kind == "claim-and-vanish":
            continue
        kind = READS if "read" in operation.kind else WRITES
        for window in windows:
            if window.touches(operation, after):
                of = found.setdefault(window.name, {READS: 0, WRITES: 0})
                of[kind] += 1
                break
    return found
