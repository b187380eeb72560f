"""What the checkers find, in one form."""

import dataclasses

from history import Operation

# Kinds of violations.
LOST = "lost write"
STALE = "stale read"
REFUSED_APPLIED = "refused write applied"
HALF = "half of a request applied"
INVENTED = "nobody wrote this"
CONTRADICTION = "no order explains this"
GUARD = "guard not kept"
BACK = "generation went back"
TWICE = "generation twice with different contents"
AHEAD = "generation without a write"
OVERSOLD = "capacity exceeded"
SUMS = "sums differ"
SHARED = "exclusive unit shared"
PLAN = "plan and allocations differ"
STATUS = "status that may not be"
OUTSIDE = "503 outside of faults"
STUCK = "not back in time"
ENDED = "a replica ended by itself"
UNDECIDED = "undecided"
COPY = "a copy kept by events differs"


@dataclasses.dataclass
class Violation:
    """What is wrong, with which thing, in words, and the operations that show it."""

    kind: str
    thing: str
    words: str
    operations: list[Operation] = dataclasses.field(default_factory=list)

    def lines(self) -> list[str]:
        return [f"{self.kind}: {self.thing}: {self.words}", *(f"    {o.words()}" for o in self.operations)]

    def summary(self) -> dict:
        return {
            "kind": self.kind, "thing": self.thing, "words": self.words,
            "operations": [operation.words() for operation in self.operations],
        }  # fmt: skip
