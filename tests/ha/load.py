"""A light load of claims and reads, and what its clients saw.

Each claimant has a provider of its own and claims one VCPU of it again and again, each time for a
new consumer. It notes what was acknowledged, so a reader knows the least that a read which began
afterwards has to show: the usage of that provider, and the newest consumer's allocations.
"""

import dataclasses
import http.client
import json
import threading
import time
import uuid

CLAIMANTS = 4
READERS = 2
# Seconds between the end of a request and the next one of the same client.
PAUSE = 0.02
# Longer than any answer should take: what takes longer is counted as no answer.
PATIENCE = 60
HEADERS = {
    "X-Auth-Token": "admin",
    "OpenStack-API-Version": "placement 1.39",
    "Content-Type": "application/json",
}


class Client:
    """One kept-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def ask(self, method: str, path: str, body: dict | None = None) -> tuple[int, dict]:
        """Status and body of the answer; the status is 0 if there was none."""
        sent = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, sent, HEADERS)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0, {}
        try:
            return answer.status, json.loads(text) if text else {}
        except ValueError:
            return answer.status, {}


@dataclasses.dataclass(frozen=True)
class Event:
    """One request: when it began and ended, whether it claims, whom it asked, and the answer."""

    began: float
    ended: float
    claims: bool
    asked: str
    status: int
    stale: bool

    @property
    def is_good(self) -> bool:
        return self.status == (204 if self.claims else 200)


class Claimant:
    """Who claims: its provider and what was acknowledged."""

    def __init__(self) -> None:
        self.provider = str(uuid.uuid4())
        self.acknowledged: list[str] = []
        self.sent = 0


class Load:
    """Clients of the balancer in front, which claim and read, and readers of each replica."""

    def __init__(self, front: int, replicas: dict[str, int]) -> None:
        self.events: list[Event] = []
        self.claimants = [Claimant() for _ in range(CLAIMANTS)]
        self._front = front
        self._replicas = replicas
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def prepare(self) -> None:
        """Make the providers."""
        client = Client(self._front)
        for number, claimant in enumerate(self.claimants):
            name = f"host-{number}-{claimant.provider}"
            body = {"uuid": claimant.provider, "name": name}
            _expect(200, client.ask("POST", "/resource_providers", body))
            inventories = {"VCPU": {"total": 1_000_000, "max_unit": 8}}
            body = {"resource_provider_generation": 0, "inventories": inventories}
            path = f"/resource_providers/{claimant.provider}/inventories"
            _expect(200, client.ask("PUT", path, body))

    def start(self) -> None:
        tasks = [(self._claim, (claimant,)) for claimant in self.claimants]
        asked = {"front": self._front, **self._replicas}
        for name, port in asked.items():
            tasks += [(self._read, (name, port, reader)) for reader in range(READERS)]
        for task, arguments in tasks:
            thread = threading.Thread(target=task, args=arguments, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(PATIENCE + 10)

    def _claim(self, claimant: Claimant) -> None:
        client = Client(self._front)
        while not self._ended.is_set():
            consumer = str(uuid.uuid4())
            body = {
                "allocations": {claimant.provider: {"resources": {"VCPU": 1}}},
                "consumer_generation": None, "consumer_type": "INSTANCE",
                "project_id": "ha", "user_id": "ha",
            }  # fmt: skip
            claimant.sent += 1
            began = time.monotonic()
            status, _ = client.ask("PUT", f"/allocations/{consumer}", body)
            ended = time.monotonic()
            if status == 204:
                claimant.acknowledged.append(consumer)
            self.events.append(Event(began, ended, True, "front", status, False))
            self._ended.wait(PAUSE)

    def _read(self, name: str, port: int, number: int) -> None:
        client = Client(port)
        while not self._ended.is_set():
            number += 1
            claimant = self.claimants[number % CLAIMANTS]
            known = len(claimant.acknowledged)
            of_consumer = known > 0 and number % 2 == 0
            if of_consumer:
                path = f"/allocations/{claimant.acknowledged[known - 1]}"
            else:
                path = f"/resource_providers/{claimant.provider}/usages"
            began = time.monotonic()
            status, body = client.ask("GET", path)
            ended = time.monotonic()
            stale = False
            if status == 200 and of_consumer:
                stale = not body["allocations"]
            elif status == 200:
                stale = body["usages"]["VCPU"] < known
            self.events.append(Event(began, ended, False, name, status, stale))
            self._ended.wait(PAUSE)

    def lost(self) -> int:
        """How many acknowledged claims a replica does not show, and usages that make no sense."""
        lost = 0
        for port in self._replicas.values():
            client = Client(port)
            for claimant in self.claimants:
                for consumer in claimant.acknowledged:
                    _, body = _expect(200, client.ask("GET", f"/allocations/{consumer}"))
                    lost += not body["allocations"]
                path = f"/resource_providers/{claimant.provider}/usages"
                _, body = _expect(200, client.ask("GET", path))
                used = body["usages"]["VCPU"]
                lost += not len(claimant.acknowledged) <= used <= claimant.sent
        return lost


def _expect(status: int, answer: tuple[int, dict]) -> tuple[int, dict]:
    if answer[0] != status:
        raise RuntimeError(f"{status} was expected: {answer}")
    return answer


@dataclasses.dataclass(frozen=True)
class Figures:
    """What a table says of one fault; times in seconds.

    Answers other than good ones are counted at the balancer: who asks one replica is turned away
    while that one is restarted.
    """

    acknowledged: int
    reads: int
    stale: int
    refused: int
    other: int
    unanswered: int
    slowest: float
    longest_without_claim: float
    longest_without_read: float
    claims_back: float | None
    reads_back: float | None


def figures(
    events: list[Event], since: float, back: float | None, balanced: bool = False
) -> Figures:
    """Of the requests that ended after `since`; `back` is when there was a primary again.

    With `balanced`, times are those of the clients of the balancer only.
    """
    asked = {event.asked for event in events}
    if balanced:
        asked = {"front"}
    all_claims = [event for event in events if event.claims]
    of_each = [[e for e in events if not e.claims and e.asked == name] for name in asked]
    events = [event for event in events if event.ended >= since]
    claims = [event for event in events if event.claims]
    reads = [event for event in events if not event.claims]
    front = [event for event in events if event.asked == "front"]
    return Figures(
        acknowledged=sum(event.is_good for event in claims),
        reads=sum(event.is_good for event in reads),
        stale=sum(event.stale for event in events),
        refused=sum(event.status == 503 for event in front),
        other=sum(event.status not in (0, 503) and not event.is_good for event in front),
        unanswered=sum(event.status == 0 for event in front),
        slowest=max(event.ended - event.began for event in events if event.asked in asked),
        longest_without_claim=_longest_gap(all_claims, since),
        longest_without_read=max(_longest_gap(events, since) for events in of_each),
        claims_back=_first_after(claims, back),
        reads_back=max(filter(None, (_first_after(events, back) for events in of_each)), default=None),
    )


def _longest_gap(events: list[Event], since: float) -> float:
    """The longest time between two good answers, of which the second came after `since`."""
    times = sorted(event.ended for event in events if event.is_good)
    pairs = zip(times, times[1:])
    return max((later - earlier for earlier, later in pairs if later >= since), default=float("inf"))


def _first_after(events: list[Event], moment: float | None) -> float | None:
    """How long after a moment the first good answer came."""
    if moment is None:
        return None
    times = [event.ended for event in events if event.is_good and event.ended >= moment]
    return min(times) - moment if times else float("inf")
