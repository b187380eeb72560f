"""Clients of the Placement API: claims, moves, swaps, deletes, reshapes, inventories, and reads.

What the checkers need of a request and its answer is in `request` and `response`:

    a write of allocations   request: writes {consumer: {guard, allocations {provider: {class: amount}}}}
    a read of a consumer     response: state null, or {generation, tag, allocations}
    reads of providers       response: generations {provider: generation}, and with them
                             usages, inventories (the mark of a write), traits, or consumers

A guard is a generation, null (the consumer must not exist), "any", or "delete".
"""

import asyncio
import random

from api import Caller
from history import OK, Operation
from world import CLASSES, MARKED, World, inventory

ANY, DELETE = "any", "delete"
USER_TYPE = "CHAOS"


class Client:
    """One client that does one thing after the other, at replicas of its choice."""

    def __init__(self, caller: Caller, world: World, seed: int, pause: float) -> None:
        self.caller = caller
        self.world = world
        self.random = random.Random(seed)
        self._pause = pause
        names = list(caller.replicas)
        # While a replica is frozen, not all clients are to wait for it.
        self._home = names[seed % len(names)]
        self._names = names

    @property
    def replica(self) -> str:
        return self._home if self.random.random() < 0.7 else self.random.choice(self._names)

    async def run(self, until: asyncio.Event) -> None:
        actions, weights = zip(*self.actions())
        while not until.is_set():
            await self.random.choices(actions, weights)[0]()
            await asyncio.sleep(self.random.expovariate(1 / self._pause))

    def actions(self) -> list[tuple]:
        raise NotImplementedError


class Claimant(Client):
    """Writes allocations, and reads them."""

    def actions(self) -> list[tuple]:
        return [
            (self.claim, 22),
            (self.claim_unguarded, 6),
            (self.claim_wrongly, 4),
            (self.move, 7),
            (self.swap, 7),
            (self.release, 10),
            (self.empty, 3),
            (self.reshape, 2),
            (self.slow_claim, 1),
            (self.vanish, 2),
            (self.read_consumer, 14),
            (self.read_provider, 16),
            (self.read_candidates, 3),
            (self.read_project, 3),
        ]

    def consumer(self) -> str:
        return self.random.choice(self.world.consumers)

    def allocations(self) -> dict:
        """One or two providers with a little of each."""
        hosts = self.world.hosts
        if self.random.random() < 0.06:
            hosts = list(self.world.planned.values())
        chosen = self.random.sample(hosts, self.random.choice([1, 1, 1, 2]))
        amount = lambda: {"VCPU": self.random.randint(1, 3), "MEMORY_MB": 512}  # noqa: E731
        return {provider: amount() for provider in chosen}

    async def claim(self) -> None:
        """Claim with the generation that a read has just shown."""
        consumer = self.consumer()
        state = await self.state(consumer)
        if state is not UNSEEN:
            guard = state["generation"] if state else None
            await self.write("claim", {consumer: (guard, self.allocations())})

    async def claim_unguarded(self) -> None:
        """Claim at a version that knows no generations of consumers."""
        writes = {self.consumer(): (ANY, self.allocations())}
        await self.write("claim-unguarded", writes, version="1.27")

    async def claim_wrongly(self) -> None:
        """Claim with a generation that is most likely wrong."""
        guard = self.random.choice([None, 1, 2, 977])
        await self.write("claim-wrongly", {self.consumer(): (guard, self.allocations())})

    async def slow_claim(self) -> None:
        """Claim, but take seconds to send the body."""
        slowly = self.random.uniform(0.5, 2)
        await self.write("claim-slowly", {self.consumer(): (ANY, self.allocations())}, version="1.27", slowly=slowly)

    async def vanish(self) -> None:
        """Claim, and go away without waiting for the answer."""
        await self.write("claim-and-vanish", {self.consumer(): (ANY, self.allocations())}, version="1.27", vanish=True)

    async def move(self) -> None:
        """Give a consumer another place and its old one to a consumer that is new."""
        first, second = self.random.sample(self.world.consumers, 2)
        one, two = await self.state(first), await self.state(second)
        if one and one is not UNSEEN and two is None:
            writes = {first: (one["generation"], self.allocations()), second: (None, one["allocations"])}
            await self.write("move", writes)

    async def swap(self) -> None:
        """Exchange what two consumers hold; one of them may hold nothing."""
        first, second = self.random.sample(self.world.consumers, 2)
        one, two = await self.state(first), await self.state(second)
        if UNSEEN not in (one, two) and (one or two):
            writes = {}
            for consumer, mine, other in ((first, one, two), (second, two, one)):
                guard = mine["generation"] if mine else None
                writes[consumer] = (guard, other["allocations"] if other else {})
            if all(guard is not None or wanted for guard, wanted in writes.values()):
                await self.write("swap", writes)

    async def release(self) -> None:
        consumer = self.consumer()
        request = {"writes": {consumer: {"guard": DELETE, "allocations": {}}}}
        await self.caller.do("release", self.replica, "DELETE", f"/allocations/{consumer}", request)

    async def empty(self) -> None:
        """Give all back with a guarded write."""
        consumer = self.consumer()
        state = await self.state(consumer)
        if state and state is not UNSEEN:
            await self.write("empty", {consumer: (state["generation"], {})})

    async def reshape(self) -> None:
        """Write inventories of a provider and allocations of a consumer in one step."""
        provider, consumer = self.random.choice(self.world.hosts), self.consumer()
        state = await self.state(consumer)
        seen = await self.provider("inventories", provider)
        if state is UNSEEN or seen is None or not state:
            return
        generation = seen["generations"][provider]
        wanted = {provider: {"VCPU": 1, "MEMORY_MB": 256}}
        request = {
            "writes": {consumer: {"guard": state["generation"], "allocations": wanted}},
            "provider": provider, "generation": generation, "reshape": True,
        }  # fmt: skip

        def body(operation: Operation) -> dict:
            stated = {"resource_provider_generation": generation, "inventories": inventories(operation)}
            claimed = self.claim_body(operation, state["generation"], wanted, "1.39")
            return {"inventories": {provider: stated}, "allocations": {consumer: claimed}}

        await self.caller.do("reshape", self.replica, "POST", "/reshaper", request, body)

    async def write(self, kind: str, writes: dict, version: str = "1.39", **manner) -> Operation:
        """Write allocations of one consumer with PUT, of several with POST."""
        request = {"writes": {c: {"guard": guard, "allocations": wanted} for c, (guard, wanted) in writes.items()}}

        def body(operation: Operation) -> dict:
            bodies = {c: self.claim_body(operation, *write, version) for c, write in writes.items()}
            return bodies if len(writes) > 1 else next(iter(bodies.values()))

        if len(writes) > 1:
            where = ("POST", "/allocations")
        else:
            where = ("PUT", f"/allocations/{next(iter(writes))}")
        return await self.caller.do(kind, self.replica, *where, request, body, version=version, **manner)

    def claim_body(self, operation: Operation, guard, wanted: dict, version: str) -> dict:
        body = {
            "allocations": {provider: {"resources": amounts} for provider, amounts in wanted.items()},
            "project_id": self.caller.project, "user_id": operation.tag,
        }  # fmt: skip
        if version != "1.27":
            body |= {"consumer_generation": guard, "consumer_type": USER_TYPE}
        return body

    async def state(self, consumer: str):
        """What a consumer holds: None for nothing, UNSEEN if no answer came."""
        operation = await read_consumer(self.caller, self.replica, consumer)
        return operation.response["state"] if operation.outcome == OK else UNSEEN

    async def read_consumer(self) -> None:
        await self.state(self.consumer())

    async def read_provider(self) -> None:
        kinds = ["usages", "usages", "inventories", "traits", "allocations", "itself", "all"]
        await self.provider(self.random.choice(kinds), self.random.choice(self.world.hosts))

    async def provider(self, kind: str, provider: str):
        operation = await read_provider(self.caller, self.replica, kind, provider)
        return operation.response if operation.outcome == OK else None

    async def read_candidates(self) -> None:
        await read_candidates(self.caller, self.replica, self.random.randint(1, 4), 50)

    async def read_project(self) -> None:
        await read_project(self.caller, self.replica, self.caller.project)


class Reader(Claimant):
    """Only reads, at one replica: when commits hang, all others wait for theirs."""

    @property
    def replica(self) -> str:
        return self._home

    def actions(self) -> list[tuple]:
        return [(self.read_consumer, 3), (self.read_provider, 5), (self.read_candidates, 1), (self.read_project, 1)]


class Owner(Client):
    """Writes inventories and traits of providers, guarded by their generations."""

    def actions(self) -> list[tuple]:
        return [(self.inventories, 3), (self.traits, 3), (self.stale, 1)]

    async def inventories(self) -> None:
        await self.write("inventories", self.random.choice(self.world.hosts))

    async def traits(self) -> None:
        await self.write("traits", self.random.choice(self.world.hosts))

    async def stale(self) -> None:
        """Write with a generation that is surely past."""
        kind = self.random.choice(["inventories", "traits"])
        await self.write(kind, self.random.choice(self.world.hosts), past=True)

    async def write(self, kind: str, provider: str, past: bool = False) -> None:
        seen = await read_provider(self.caller, self.replica, kind, provider)
        if seen.outcome != OK:
            return
        generation = seen.response["generations"][provider] - (1 if past else 0)
        if generation < 0:
            return
        request = {"provider": provider, "generation": generation}
        if kind == "traits":
            request["traits"] = self.other_traits(seen.response["traits"][provider])

        def body(operation: Operation) -> dict:
            what = request["traits"] if kind == "traits" else inventories(operation)
            return {"resource_provider_generation": generation, kind: what}

        read = lambda answer: provider_view(kind, provider, answer.json())  # noqa: E731
        path = f"/resource_providers/{provider}/{kind}"
        await self.caller.do(f"write-{kind}", self.replica, "PUT", path, request, body, read)

    def other_traits(self, present: list[str]) -> list[str]:
        while True:
            chosen = [trait for trait in self.world.traits if self.random.random() < 0.5]
            if chosen != present:
                return chosen


# Told from None, which is a consumer that holds nothing.
UNSEEN = {"unseen": True}


def inventories(operation: Operation) -> dict:
    """Inventories that tell which operation wrote them."""
    return {name: inventory(total, operation.number) for name, total in CLASSES.items()}


async def read_consumer(caller: Caller, replica: str, consumer: str) -> Operation:
    """Read what a consumer holds."""
    return await caller.do(
        "read-consumer", replica, "GET", f"/allocations/{consumer}", {"consumer": consumer},
        read=lambda answer: {"state": consumer_view(answer.json())},
    )  # fmt: skip


def consumer_view(document: dict) -> dict | None:
    if not document["allocations"]:
        return None
    held = {provider: of["resources"] for provider, of in document["allocations"].items()}
    return {
        "generation": document["consumer_generation"], "tag": document["user_id"], "allocations": held,
        "generations": {provider: of["generation"] for provider, of in document["allocations"].items()},
    }  # fmt: skip


async def read_candidates(caller: Caller, replica: str, amount: int, limit: int) -> Operation:
    """Read where something fits, and with it what is used of those providers."""

    def read(answer) -> dict:
        summaries = answer.json()["provider_summaries"]
        return {"usages": {
            provider: {name: of["used"] for name, of in summary["resources"].items()}
            for provider, summary in summaries.items()
        }}  # fmt: skip

    path = f"/allocation_candidates?resources=VCPU:{amount}&limit={limit}"
    return await caller.do("read-candidates", replica, "GET", path, {}, read=read)


async def read_project(caller: Caller, replica: str, project: str) -> Operation:
    """Read what a project uses, of all types of consumers together."""

    def read(answer) -> dict:
        totals = answer.json()["usages"].get("all", {})
        return {"totals": {name: amount for name, amount in totals.items() if name != "consumer_count"}}

    path = f"/usages?project_id={project}&consumer_type=all"
    return await caller.do("read-project-usages", replica, "GET", path, {"project": project}, read=read)


async def read_provider(caller: Caller, replica: str, kind: str, provider: str) -> Operation:
    """Read one side of a provider, or with `all` the list of all providers."""
    paths = {"itself": f"/resource_providers/{provider}", "all": "/resource_providers"}
    path = paths.get(kind, f"/resource_providers/{provider}/{kind}")
    request = {} if kind == "all" else {"provider": provider}
    read = lambda answer: provider_view(kind, provider, answer.json())  # noqa: E731
    return await caller.do(f"read-{kind}", replica, "GET", path, request, read=read)


def provider_view(kind: str, provider: str, document: dict) -> dict:
    if kind == "all":
        listed = document["resource_providers"]
        return {"generations": {entry["uuid"]: entry["generation"] for entry in listed}}
    if kind == "itself":
        return {"generations": {provider: document["generation"]}}
    view: dict = {"generations": {provider: document["resource_provider_generation"]}}
    if kind == "usages":
        view["usages"] = {provider: document["usages"]}
    elif kind == "inventories":
        marks = {of["max_unit"] - MARKED for of in document["inventories"].values()}
        # Of one write, both classes have the same mark.
        view["mark"] = {provider: marks.pop() if len(marks) == 1 else sorted(marks)}
    elif kind == "traits":
        chosen = [trait for trait in document["traits"] if trait.startswith("CUSTOM_CHAOS_")]
        view["traits"] = {provider: sorted(chosen)}
    elif kind == "allocations":
        view["consumers"] = {provider: {
            consumer: {"generation": of["consumer_generation"], "resources": of["resources"]}
            for consumer, of in document["allocations"].items()
        }}  # fmt: skip
    return view
