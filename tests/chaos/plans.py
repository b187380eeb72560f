"""Plans: what was acknowledged is there, holds are where plans say, and groups keep to themselves.

Each stack has one owner, whose requests come one after the other; so the checks are about what was
known to be done when a read began.
"""

import collections

from history import OK, REFUSED, UNKNOWN, History, Operation
from planning import AMOUNTS
from violations import LOST, PLAN, REFUSED_APPLIED, SHARED, STALE, Violation
from world import World


def violations(history: History, world: World) -> list[Violation]:
    stacks: dict[str, list[Operation]] = collections.defaultdict(list)
    for operation in history.operations:
        if "stack" in operation.request:
            stacks[operation.request["stack"]].append(operation)
    finals = [o for o in history.operations if o.outcome == OK and "plans" in (o.response or {})]
    found = []
    for stack, operations in stacks.items():
        found += _Stack(stack, operations, world, finals).violations()
    return found + _units(history, world)


class _Stack:
    """The life of one stack."""

    def __init__(self, stack: str, operations: list[Operation], world: World, finals: list[Operation]) -> None:
        self._thing = f"stack {stack}"
        # Whether the database has it at the end.
        self._finals = [(read, stack in read.response["plans"]) for read in finals]
        self._operations = operations
        self._world = world
        of = lambda kind: [o for o in operations if o.kind == kind]  # noqa: E731
        self._creates, self._deletes = of("plan-create"), of("plan-delete")
        self._reads, self._placements, self._holds = of("plan-read"), of("placement-read"), of("hold-read")
        self._reserves, self._arrivals = of("reserve"), of("arrive")
        # One that nobody knows the outcome of may be done after all else.
        self._late = [o for o in self._creates if o.outcome == UNKNOWN]

    def violations(self) -> list[Violation]:
        made = [o for o in self._creates if o.outcome == OK]
        found = self._existence(made)
        if not made:
            return found
        first = made[0].response["plan"]
        for operation in [*made[1:], *(o for o in self._reads if o.outcome == OK)]:
            if operation.response["plan"]["id"] != first["id"]:
                words = f"two plans of one stack: {first['id']} and {operation.response['plan']['id']}"
                found.append(Violation(PLAN, self._thing, words, [made[0], operation]))
            found += self._same_places(made[0], operation)
        found += self._apart(made[0])
        found += self._reservations()
        found += self._held(made[0])
        return found

    def _existence(self, made: list[Operation]) -> list[Violation]:
        found = []
        unsure = [o for o in self._creates if o.outcome in (OK, UNKNOWN)]
        for read in self._reads:
            gone = [] if self._late else [o for o in self._deletes if o.outcome == OK and o.end < read.begin]
            going = [o for o in self._deletes if o.outcome in (OK, UNKNOWN) and o.begin < read.end]
            there = [o for o in made if o.end < read.begin]
            if read.outcome == REFUSED and read.status == 404 and there and not going:
                later = any(o.outcome == OK and o.begin > read.begin for o in self._reads)
                later = later or any(there for _, there in self._finals)
                words = "an acknowledged plan is not found"
                found.append(Violation(STALE if later else LOST, self._thing, words, [read, there[-1]]))
            elif read.outcome == OK and gone:
                words = "a plan is shown whose deletion was acknowledged"
                found.append(Violation(STALE, self._thing, words, [read, gone[0]]))
            elif read.outcome == OK and not unsure:
                words = "a plan is shown that was refused"
                found.append(Violation(REFUSED_APPLIED, self._thing, words, [read, *self._creates]))
        return found + self._at_the_end(made, unsure)

    def _at_the_end(self, made: list[Operation], unsure: list[Operation]) -> list[Violation]:
        found = []
        going = [o for o in self._deletes if o.outcome in (OK, UNKNOWN)]
        gone = [] if self._late else [o for o in self._deletes if o.outcome == OK]
        for read, there in self._finals:
            if made and not there and not going:
                words = "an acknowledged plan is not in the database"
                found.append(Violation(LOST, self._thing, words, [read, made[-1]]))
            elif there and gone:
                words = "a plan is in the database whose deletion was acknowledged"
                found.append(Violation(LOST, self._thing, words, [read, gone[0]]))
            elif there and not unsure:
                words = "a plan is in the database that was refused"
                found.append(Violation(REFUSED_APPLIED, self._thing, words, [read, *self._creates]))
        return found

    def _same_places(self, made: Operation, other: Operation) -> list[Violation]:
        """Nobody here asks for a move: a server is where it was, or has left with its instance."""
        found = []
        first, second = made.response["plan"]["placements"], other.response["plan"]["placements"]
        for server, location in second.items():
            if location is not None and location != first.get(server):
                words = f"{server} was on {first.get(server)} and is on {location}"
                found.append(Violation(PLAN, self._thing, words, [made, other]))
            elif location is None and not self._may_have_left(server, other):
                words = f"{server} has lost its place on {first.get(server)}"
                found.append(Violation(LOST, self._thing, words, [made, other]))
        return found

    def _may_have_left(self, server: str, read: Operation) -> bool:
        """Whether its instance came, or its plan was deleted."""
        later = [o for o in self._operations if o.kind in ("leave", "plan-delete") and o.begin < read.end]
        return bool(later)

    def _apart(self, made: Operation) -> list[Violation]:
        places = list(made.response["plan"]["placements"].values())
        if made.request["apart"] and len(set(places)) < len(places):
            return [Violation(PLAN, self._thing, f"servers that must be apart are on {places}", [made])]
        return []

    def _reservations(self) -> list[Violation]:
        found = []
        for read in self._placements:
            if read.outcome != OK:
                continue
            shown = read.response["placement"]
            for done in self._reserves:
                same = done.request["server"] == read.request["server"]
                if same and done.outcome == OK and done.end < read.begin:
                    if not shown["reserved"] or shown["resource"] != done.request["instance"]:
                        words = "an acknowledged reservation is not shown"
                        found.append(Violation(STALE, self._thing, words, [read, done]))
        return found

    def _held(self, made: Operation) -> list[Violation]:
        """Whether the hold of a placement is what the plan says."""
        found = []
        for read in self._holds:
            if read.outcome != OK:
                continue
            server = read.request["server"]
            arrived = [o for o in self._arrivals if o.request["server"] == server]
            over = [o for o in self._deletes if o.begin < read.end]
            location = made.response["plan"]["placements"][server]
            provider = self._world.planned[location]
            state = read.response["state"]
            if state is not None and state["allocations"] != {provider: AMOUNTS}:
                words = f"{server} is planned on {location} ({provider}) and holds {state['allocations']}"
                found.append(Violation(PLAN, self._thing, words, [made, read]))
            if state is None and not over and not any(o.begin < read.end for o in arrived):
                words = f"nothing is held for {server}, which is planned on {location}"
                found.append(Violation(LOST, self._thing, words, [made, read]))
            done = [o for o in [*self._deletes, *arrived] if o.outcome == OK and o.end < read.begin]
            if state is not None and done:
                words = f"{server} is held for although that had ended"
                found.append(Violation(STALE, self._thing, words, [read, done[0]]))
        return found


def _units(history: History, world: World) -> list[Violation]:
    """Whether a host was seen with servers of a group and with others at one time.

    What two reads or acknowledgements show of one write was there all the time in between.
    """
    spans: dict[str, list] = collections.defaultdict(list)
    ends = _first_ends(history)
    for made in history.operations:
        if made.kind != "plan-create" or made.outcome != OK:
            continue
        until = ends.get(made.request["stack"], made.end)
        for location in set(made.response["plan"]["placements"].values()):
            spans[location].append((made.end, until, made.request["group"], made))
    found = []
    for location, entries in spans.items():
        for number, (begin, end, group, made) in enumerate(entries):
            for other_begin, other_end, other_group, other in entries[number + 1 :]:
                if group != other_group and begin < other_end and other_begin < end:
                    words = f"{location} has servers of {group} and of {other_group} at one time"
                    found.append(Violation(SHARED, location, words, [made, other]))
    return found


def _first_ends(history: History) -> dict[str, float]:
    """Until when each stack is known to hold all that it was planned with."""
    ends: dict[str, float] = {}
    for operation in history.operations:
        if operation.kind in ("arrive", "plan-delete") and "stack" in operation.request:
            ends.setdefault(operation.request["stack"], operation.begin)
    return ends
