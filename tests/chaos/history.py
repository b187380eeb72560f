"""The log of all operations: the request, the replica, the time, and the outcome."""

import dataclasses
import json
import math
import pathlib
import time

# Acknowledged; surely without effect; nobody knows; and never sent.
OK, REFUSED, UNKNOWN, UNREACHED = "ok", "refused", "unknown", "unreached"


@dataclasses.dataclass(slots=True)
class Operation:
    """One request. Times are seconds of this machine's monotonic clock.

    end:    when its answer came; infinite if its outcome is unknown, because then it may take effect later.
    heard:  when its client heard of it or gave up, whatever its outcome.

    `request` and `response` are what the checkers need, in the form that workload.py gives them;
    `response` is only there for what was acknowledged.
    """

    number: int
    client: str
    kind: str
    replica: str
    begin: float
    request: dict
    end: float = math.inf
    outcome: str = UNKNOWN
    status: int = 0
    retry_after: str | None = None
    response: dict | None = None
    note: str = ""
    heard: float = math.inf

    @property
    def tag(self) -> str:
        """What a write leaves with what it writes, so that each read tells whose write it shows."""
        return f"op-{self.number}"

    def took_effect_by(self) -> float:
        """When its effect is there at the latest; never, for one whose outcome is unknown."""
        return self.end if self.outcome == OK else math.inf

    def words(self) -> str:
        """The operation in a line, for reports."""
        until = "..." if self.outcome == UNKNOWN else f"{self.end:.3f}"
        state = f"{self.outcome} {self.status or ''}".strip()
        text = f"#{self.number} {self.kind} at {self.replica} by {self.client} {self.begin:.3f}-{until}: {state}"
        if self.note:
            text += f" ({self.note})"
        text += f" request {json.dumps(self.request, sort_keys=True)[:400]}"
        if self.response is not None and self.kind != "final":
            text += f" response {json.dumps(self.response, sort_keys=True)[:400]}"
        return text


class History:
    """All operations of a run, in the order in which they began."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.began = time.monotonic()

    def begin(self, client: str, kind: str, replica: str, request: dict) -> Operation:
        """Note that an operation begins now."""
        number = len(self.operations)
        operation = Operation(number, client, kind, replica, time.monotonic(), request)
        self.operations.append(operation)
        return operation

    def write(self, file: pathlib.Path) -> None:
        """Write it down, one operation a line."""
        with open(file, "w") as out:
            for operation in self.operations:
                fields = dataclasses.asdict(operation)
                for name in ("end", "heard"):
                    if fields[name] == math.inf:
                        fields[name] = None
                out.write(json.dumps(fields) + "\n")

    @classmethod
    def read(cls, file: pathlib.Path) -> "History":
        """Read what `write` wrote."""
        history = cls()
        for line in file.read_text().splitlines():
            fields = json.loads(line)
            for name in ("end", "heard"):
                fields[name] = math.inf if fields.get(name) is None else fields[name]
            history.operations.append(Operation(**fields))
        return history
