"""Berth and the reference, side by side: the same requests, and the same answers.

Run it by `tests/differential/run`, which prepares the Python environment first.
"""

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import json
import pathlib
import random
import signal
import sys
import time

import compare
import known
import routes
from cloud import CUSTOM_CLASSES, OWNERS, Cloud, Provider
from exchange import Answer, Request, send
from harness import report, servers
from spoil import spoil

# The first part of a round builds a cloud, with few mistakes.
BUILDING = 60
# How often all there is is compared.
LOOK_ROUND_EVERY = 100
PRINTED_OF_A_KIND = 2


HERE = pathlib.Path(__file__).resolve().parent


class Diverged(Exception):
    """The servers do not hold the same any more: the round is over."""


@dataclasses.dataclass
class Tally:
    """What came of the requests so far."""

    passed: int = 0
    failed: int = 0
    known: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    statuses: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    failures: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    @property
    def asked(self) -> int:
        return self.passed + self.failed + sum(self.known.values())

    def add(self, other: "Tally") -> None:
        """Count what came of another round, too."""
        self.passed += other.passed
        self.failed += other.failed
        for mine, theirs in zip(self._counters(), other._counters()):
            mine.update(theirs)

    def written(self) -> dict:
        """As it is kept in a file, see `read`."""
        counters = [sorted(([key, n] for key, n in it.items()), key=str) for it in self._counters()]
        return {"passed": self.passed, "failed": self.failed, "counted": counters}

    @classmethod
    def read(cls, kept: dict) -> "Tally":
        tally = cls(kept["passed"], kept["failed"])
        for counter, entries in zip(tally._counters(), kept["counted"]):
            for key, times in entries:
                counter[tuple(key) if isinstance(key, list) else key] = times
        return tally

    def _counters(self) -> list[collections.Counter]:
        return [self.known, self.statuses, self.failures]


class Memory:
    """The rounds that are done, in a file, so that a run goes on where another ended.

    Rounds count that were made by the same generator: another makes other requests of a seed.
    """

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        digest = hashlib.sha256()
        for source in ("cloud.py", "exchange.py", "queries.py", "routes.py", "spoil.py", "suite.py"):
            digest.update((HERE / source).read_bytes())
        self._generator = digest.hexdigest()[:16]
        lines = file.read_text().splitlines() if file.is_file() else []
        kept = [json.loads(line) for line in lines]
        self.rounds = {
            (it["round"], it["requests"]): Tally.read(it)
            for it in kept
            if it["generator"] == self._generator
        }

    def keep(self, name: str, requests: int, tally: Tally) -> None:
        self.rounds[name, requests] = tally
        line = {"round": name, "requests": requests, "generator": self._generator}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with open(self._file, "a") as out:
            print(json.dumps(line | tally.written()), file=out)



class Both:
    """The two servers as one: asks both and compares."""

    def __init__(self, reference: str, berth: str, tally: Tally, name: str) -> None:
        self._reference = reference
        self._berth = berth
        self._tally = tally
        self._name = name
        self._asked = 0

    def ask(self, request: Request) -> Answer:
        """The reference's answer, compared with Berth's."""
        self._asked += 1
        reference, berth = self._send(self._reference, request), self._send(self._berth, request)
        found = compare.differences(request, reference, berth)
        if not found and compare.both_cut_short(request, reference, berth):
            found = self._cut_short(request, reference, berth)
        self._tally.statuses[reference.status] += 1
        if not found:
            self._tally.passed += 1
            return reference
        reason = known.explanation(request, reference, berth)
        if reason:
            self._tally.known[reason] += 1
        else:
            self._tally.failed += 1
            self._tell(request, reference, berth, found)
        went_well = [answer.status < 300 for answer in (reference, berth)]
        if request.method != "GET" and went_well[0] != went_well[1]:
            raise Diverged
        return reference

    def _cut_short(self, request: Request, reference: Answer, berth: Answer) -> list[str]:
        """Whether each server's part of the candidates is one of its whole.

        The reference is held to it as well, so that the rule is the right one. The wholes are what
        other requests compare.
        """
        query = [(name, value) for name, value in request.query if name != "limit"]
        unlimited = dataclasses.replace(request, query=query)
        trees = self._send(self._reference, Request("GET", "/resource_providers", "1.39"))
        roots = {it["uuid"]: it["root_provider_uuid"] for it in trees.json()["resource_providers"]}
        parts = [("the reference", self._reference, reference), ("Berth", self._berth, berth)]
        for name, url, part in parts:
            whole = self._send(url, unlimited)
            found = compare.no_part_of(part, whole, roots) if whole.status == 200 else []
            if found:
                return [f"limit of {name}: {what}" for what in found]
        return []

    def _send(self, url: str, request: Request) -> Answer:
        try:
            return send(url, request)
        except OSError as error:
            return Answer(0, {}, f"no answer: {error!r}".encode())

    def _tell(self, request: Request, reference: Answer, berth: Answer, found: list[str]) -> None:
        kind = (request.kind, reference.status, berth.status, found[0].split(":")[0])
        self._tally.failures[kind] += 1
        if self._tally.failures[kind] > PRINTED_OF_A_KIND:
            return
        print(f"FAIL  {request.kind} (round {self._name}, request {self._asked})")
        for part in [str(request), "--- reference:", str(reference), "--- berth:", str(berth)]:
            print("\n".join(f"      {line}" for line in part.splitlines()))
        print("\n".join(f"  !   {line}" for line in found), flush=True)

    # What requests need to know.

    def of_provider(self, uuid: str) -> int:
        request = Request("GET", f"/resource_providers/{uuid}", "1.39", kind="generation")
        found = self.ask(request).json() or {}
        return found.get("generation", 0)

    def of_consumer(self, uuid: str) -> int | None:
        request = Request("GET", f"/allocations/{uuid}", "1.39", kind="generation")
        found = self.ask(request).json() or {}
        return found.get("consumer_generation")


def main() -> int:
    chosen = arguments()
    # A `kill` must leave neither servers nor a cluster behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tally = Tally()
    began = time.monotonic()
    memory = Memory(chosen.remember) if chosen.remember else None
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(source()) for source in (servers.Reference, servers.Berth)]
        for number in numbers(chosen, tally):
            name = f"{chosen.seed}-{number}"
            done = memory and memory.rounds.get((name, chosen.requests))
            if done:
                tally.add(done)
                continue
            this = Tally()
            run_round(sources, name, chosen.requests, this)
            tally.add(this)
            if memory:
                memory.keep(name, chosen.requests, this)
            took = time.monotonic() - began
            print(f"round {name}: {tally.asked} requests, {tally.failed} failed, {took:.0f} s", flush=True)
    print("answers: " + ", ".join(f"{n} x {s}" for s, n in sorted(tally.statuses.items())))
    for reason, times in sorted(tally.known.items()):
        print(f"known: {reason}, {times} times")
    for (kind, one, other, what), times in tally.failures.most_common():
        print(f"failed: {kind}, {one} against {other}, {what}, {times} times")
    return report.finish(tally.passed, tally.failed, sum(tally.known.values()))


def numbers(chosen: argparse.Namespace, tally: Tally):
    """The rounds to make: one, so many, or as many as it takes for so many requests."""
    if chosen.round is not None:
        yield chosen.round
    elif chosen.until is None:
        yield from range(chosen.rounds)
    else:
        number = 0
        while tally.asked < chosen.until:
            yield number
            number += 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/differential/run",
        description="Sends the same random requests to Berth and to openstack-placement.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which requests (1)")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="each with fresh servers (3)"
    )
    parser.add_argument(
        "--requests", type=int, default=500, metavar="N", help="requests in a round (500)"
    )
    parser.add_argument(
        "--until", type=int, metavar="N", help="as many rounds as it takes for N requests"
    )
    parser.add_argument(
        "--remember", type=pathlib.Path, metavar="FILE",
        help="keep in this file which rounds are done, and do not make these again",
    )  # fmt: skip
    parser.add_argument("--round", type=int, metavar="N", help="only this round, to see it again")
    return parser.parse_args()


def run_round(sources, name: str, requests: int, tally: Tally) -> None:
    """One sequence of requests to two fresh servers."""
    rng = random.Random(name)
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(source.start(f"differential-{kind}"))
            for source, kind in zip(sources, ("reference", "berth"))
        ]
        both = Both(started[0].url, started[1].url, tally, name)
        cloud = Cloud(rng, both)
        try:
            for number in range(requests):
                one_step(both, cloud, number)
            look_round(both, cloud)
        except Diverged:
            pass
        for server in started:
            if not server.is_running():
                tally.failed += 1
                print(f"FAIL  a server stopped in round {name}\n{server.tail()}")


def one_step(both: Both, cloud: Cloud, number: int) -> None:
    building = number < BUILDING
    request = routes.any_request(cloud, building)
    if cloud.chance(0.02 if building else 0.25):
        request = spoil(cloud, request)
    answer = both.ask(request)
    if request.method != "GET" and answer.status < 300:
        cloud.providers = listed(both)
    if request.path.startswith(("/allocations", "/reshaper")) and request.method != "GET":
        retire_consumers(both, cloud)
    if number % LOOK_ROUND_EVERY == LOOK_ROUND_EVERY - 1:
        look_round(both, cloud)


def retire_consumers(both: Both, cloud: Cloud) -> None:
    """No more of consumers that hold nothing.

    The reference may keep something of them (D8), which would end round after round.
    """
    cloud.consumers = [
        consumer if both.of_consumer(consumer) is not None else cloud.new_uuid()
        for consumer in cloud.consumers
    ]


def listed(both: Both) -> dict[str, Provider]:
    """The providers there are."""
    request = Request("GET", "/resource_providers", "1.39", kind="listed")
    found = (both.ask(request).json() or {}).get("resource_providers", [])
    return {
        it["uuid"]: Provider(it["uuid"], it["name"], it["parent_provider_uuid"])
        for it in sorted(found, key=lambda it: it["uuid"])
    }


def look_round(both: Both, cloud: Cloud) -> None:
    """Compares all there is."""
    paths = ["/traits", "/resource_classes", "/resource_providers"]
    paths += [f"/resource_classes/{name}" for name in CUSTOM_CLASSES]
    paths += [f"/usages?project_id={owner}" for owner in OWNERS]
    paths += [f"/allocations/{consumer}" for consumer in cloud.consumers]
    parts = ["inventories", "usages", "traits", "aggregates", "allocations"]
    paths += [f"/resource_providers/{uuid}/{part}" for uuid in cloud.providers for part in parts]
    for path in paths:
        both.ask(Request("GET", path, "1.39", kind="look_round"))


if __name__ == "__main__":
    sys.exit(main())
