"""Copies of the cloud that clients keep by one bulk read and the events since.

Each keeper follows the events of one replica after the other, as connections break, and goes on from the
last number. A copy that has reached the number of a bulk read must be what that read tells. All keepers
must be told the same events under the same numbers, whichever replicas they asked.
"""

import asyncio
import dataclasses
import itertools
import json
import random

from api import ROLES, Replica
from violations import COPY, Violation
from wire import Broken, Connection, Refused, Unreached, stream

HEADERS = {"X-Auth-Token": "admin", "X-Roles": ROLES, "Accept": "application/json"}
PROVIDERS = "/-/v1/providers?include=inventories,traits,aggregates,allocations"
# Events, or the word that there are none, come more often than this.
SILENCE_SECONDS = 20
# Between two bulk reads with which a copy is compared.
CHECK_SECONDS = 5
PAUSE_SECONDS = 0.1
# For a copy to be as new as the last bulk read.
END_SECONDS = 60
OWNER = ("project_id", "user_id", "consumer_type", "consumer_generation")


class Wrong(Exception):
    """Events that a copy cannot be kept with."""


@dataclasses.dataclass
class Copy:
    """What is known as of a number."""

    number: int
    # As the bulk read tells of them, without allocations.
    providers: dict[str, dict]
    # Owner, generation and allocations by provider.
    consumers: dict[str, dict]

    @classmethod
    def of(cls, document: dict) -> "Copy":
        """The copy that a bulk read is."""
        copy = cls(document["number"], {}, {})
        for provider in document["providers"]:
            uuid = provider["uuid"]
            for consumer, held in provider.pop("allocations").items():
                known = copy.consumers.setdefault(
                    consumer, {**{name: held[name] for name in OWNER}, "allocations": {}}
                )
                known["allocations"][uuid] = held["resources"]
            copy.providers[uuid] = provider
        return copy

    def apply(self, event: dict) -> None:
        """Take an event over. Raises Wrong if it cannot be the next one."""
        number, kind = event["number"], event["kind"]
        if kind == "position":
            if number < self.number:
                raise Wrong(f"position {number} after {self.number}")
            self.number = number
            return
        if number <= self.number:
            raise Wrong(f"event {number} after {self.number}")
        self.number = number
        try:
            if kind == "provider":
                self._provider(event)
            elif kind == "consumer":
                self._consumer(event)
        except KeyError as unknown:
            raise Wrong(f"event {number} is about {unknown}, which the copy does not have") from unknown

    def _provider(self, event: dict) -> None:
        if event["provider"] is None:
            del self.providers[event["uuid"]]
        else:
            self.providers[event["uuid"]] = event["provider"]

    def _consumer(self, event: dict) -> None:
        for provider, held in event["allocations"].items():
            self.providers[provider]["generation"] = held["generation"]
        for provider, generation in event["left"].items():
            self.providers[provider]["generation"] = generation
        if event["consumer_generation"] is None:
            del self.consumers[event["uuid"]]
            return
        held = {provider: it["resources"] for provider, it in event["allocations"].items()}
        self.consumers[event["uuid"]] = {**{name: event[name] for name in OWNER}, "allocations": held}

    def differences(self, other: "Copy") -> list[str]:
        """In words, what another copy of the same number has differently."""
        found = []
        for kind, ours, theirs in (
            ("provider", self.providers, other.providers), ("consumer", self.consumers, other.consumers),
        ):  # fmt: skip
            for uuid in sorted(ours.keys() | theirs.keys()):
                ours_is, theirs_is = ours.get(uuid) or {}, theirs.get(uuid) or {}
                for name in sorted(ours_is.keys() | theirs_is.keys()):
                    kept, read = ours_is.get(name), theirs_is.get(name)
                    if kept != read:
                        difference = f"{name} {json.dumps(kept)} is kept, {json.dumps(read)} was read"
                        found.append(f"at {self.number} (read {other.number}), {kind} {uuid}: {difference}")
        return found


@dataclasses.dataclass
class Stretch:
    """Events without a gap: all that there are after a number, up to another one."""

    first: int
    last: int
    # What was told, by number.
    events: dict[int, int] = dataclasses.field(default_factory=dict)


class Keeper:
    """A client that keeps a copy."""

    def __init__(self, name: str, replicas: list[Replica], seed: int) -> None:
        self.name = name
        self.stretches: list[Stretch] = []
        self.violations: list[Violation] = []
        self.connected, self.compared, self.gaps = 0, 0, 0
        self._replicas = replicas
        self._random = random.Random(seed)
        self._copy: Copy | None = None
        # A bulk read to compare with, once its number is reached.
        self._check: Copy | None = None

    async def run(self, done: asyncio.Event) -> None:
        """Keep a copy until it is done; who keeps it can go on later."""
        over = asyncio.create_task(done.wait())
        tasks = {asyncio.create_task(self._keep()), asyncio.create_task(self._look()), over}
        try:
            finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def end(self, last: Copy) -> None:
        """Go on to the number of the last bulk read, and compare."""
        self._check = last
        keeping = asyncio.create_task(self._keep())
        try:
            async with asyncio.timeout(END_SECONDS):
                while self._check is last:
                    await asyncio.sleep(PAUSE_SECONDS)
                    if keeping.done():
                        keeping.result()
        except TimeoutError:
            number = self._copy and self._copy.number
            self._violation(f"the copy is at {number}, and does not get to {last.number}")
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            replica = self._random.choice(self._replicas)
            try:
                if self._copy is None:
                    self._copy = await bulk(replica)
                    self.stretches.append(Stretch(self._copy.number, self._copy.number))
                await self._follow(replica)
            except (Unreached, Broken):
                pass
            except Refused as refused:
                # The log does not have the number: a gap. Everything else passes.
                self._forget(refused.status == 410)
            except Wrong as wrong:
                self._violation(str(wrong))
                self._forget(True)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _follow(self, replica: Replica) -> None:
        path = f"/-/v1/events?since={self._copy.number}"
        is_first = True
        async for line in stream(replica.placement, path, HEADERS, SILENCE_SECONDS):
            event = json.loads(line)
            self.connected += is_first
            is_first = False
            if event["kind"] == "gap":
                self._forget(True)
                return
            if event["kind"] == "end":
                return
            self._compare(event["number"] - (event["kind"] != "position"))
            self._copy.apply(event)
            stretch = self.stretches[-1]
            stretch.last = self._copy.number
            if event["kind"] != "position":
                stretch.events[event["number"]] = hash(line)
            self._compare(self._copy.number)

    def _compare(self, complete: int) -> None:
        """Compare with the bulk read if the copy has all up to its number, and nothing after it."""
        check = self._check
        if check is None or complete < check.number:
            return
        if self._copy.number <= check.number:
            self.compared += 1
            for words in self._copy.differences(check):
                self._violation(words)
        # Otherwise the copy was ahead when the read was answered.
        self._check = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                read = await bulk(self._random.choice(self._replicas))
            except (Unreached, Broken, Refused):
                continue
            if self._copy is not None and read.number >= self._copy.number:
                self._check = read

    def _forget(self, is_gap: bool) -> None:
        if is_gap:
            self.gaps += 1
            self._copy = self._check = None

    def _violation(self, words: str) -> None:
        self.violations.append(Violation(COPY, self.name, words))


async def bulk(replica: Replica) -> Copy:
    """All that there is. Raises Unreached, Broken or Refused."""
    connection = Connection(replica.placement)
    try:
        answer = await connection.ask("GET", PROVIDERS, HEADERS)
    finally:
        connection.close()
    if answer.status != 200:
        raise Refused(answer.status)
    return Copy.of(answer.json())


def disagreements(keepers: list[Keeper]) -> list[Violation]:
    """Events that one keeper was told and another one was not, or differently."""
    found = []
    for one, other in itertools.combinations(keepers, 2):
        for ours, theirs in itertools.product(one.stretches, other.stretches):
            first, last = max(ours.first, theirs.first), min(ours.last, theirs.last)
            events = [
                {number: what for number, what in stretch.events.items() if first < number <= last}
                for stretch in (ours, theirs)
            ]
            numbers = sorted(
                number for number in events[0].keys() | events[1].keys()
                if events[0].get(number) != events[1].get(number)
            )  # fmt: skip
            if numbers:
                words = f"{len(numbers)} events are not the same as for {other.name}, first {numbers[0]}"
                found.append(Violation(COPY, one.name, words))
    return found
