"""What the published API has no answer for: Berth's own paths beside what a client of the reference
would have to ask instead. Rates are whole answers a second."""

import dataclasses
import http.client
import json
import random
import time
from typing import Callable

import clouds
import servers
from clouds import AGGREGATE, PROVIDER, uuid_of
from measure import Sample
from workloads import FLAT, HELD, Arena, Workload, claim_lines, claims

# What a provider has, by the last segment of its path.
PARTS = ("inventories", "usages", "traits", "aggregates")
# Providers of which all parts are read, where reading all of them would take an hour.
SOME = 1_000
# Claims that a client is to learn of.
CHANGES = 1_000
# Every host with the one trait has the other, so nothing fits.
CONDITIONS = (
    ("resources", "VCPU:1"), ("resources", "DISK_GB:10"), ("resources", "MEMORY_MB:256"),
    ("member_of", uuid_of(AGGREGATE, 1)), ("required", "CUSTOM_GOLD"),
    ("required", "!STORAGE_DISK_SSD"),
)  # fmt: skip
EVENTS = ("--events", "24")


def query(conditions) -> str:
    """The query string that has these conditions."""
    parts: dict[str, list[str]] = {}
    for name, value in conditions:
        parts.setdefault(name, []).append(value)
    return "&".join(f"{name}={','.join(values)}" for name, values in parts.items())


def explain(arena: Arena) -> Sample:
    """Why nothing fits. A client of the reference leaves out one condition after the other."""
    if arena.is_berth:
        return arena.meter.wrk(arena.service, [f"/-/v1/explain?{query(CONDITIONS)}"], connections=1)
    conditions_of_each = [CONDITIONS] + [
        tuple(it for it in CONDITIONS if it is not left_out) for left_out in CONDITIONS
    ]
    return in_turn(arena, [f"/allocation_candidates?{query(conditions)}" for conditions in conditions_of_each])


def fit(arena: Arena) -> Sample:
    """How many more fit. A client of the reference reads all candidates, and adds up."""
    if arena.is_berth:
        path = f"/-/v1/fit?{FLAT.partition('?')[2]}"
        return arena.meter.wrk(arena.service, [path], connections=1)
    return in_turn(arena, [FLAT])


def ordered(order: str) -> Callable[[Arena], Sample]:
    """The first 1,000 candidates in an order. A client of the reference reads all, and sorts."""

    def measure(arena: Arena) -> Sample:
        if arena.is_berth:
            path = f"/-/v1/allocation_candidates?{FLAT.partition('?')[2]}&limit=1000{order}"
            return arena.meter.wrk(arena.service, [path], connections=1)
        return in_turn(arena, [FLAT])

    return measure


def whole_cloud(*more: str) -> Callable[[Arena], Sample]:
    """All that there is of all providers: one request of Berth, and one for each part of each
    provider of the reference, of which some are sent."""
    parts = (*PARTS, *more)

    def measure(arena: Arena) -> Sample:
        if arena.is_berth:
            return in_turn(arena, [f"/-/v1/providers?include={','.join(parts)}"])
        draw = random.Random(arena.round)
        some = [uuid_of(PROVIDER, draw.randint(1, arena.cloud.providers)) for _ in range(SOME)]
        paths = [f"/resource_providers/{uuid}/{part}" for uuid in some for part in parts]
        sample = arena.meter.wrk(arena.service, paths, connections=8)
        return whole(sample, 1 + len(parts) * arena.cloud.providers)

    return measure


def changes(arena: Arena) -> Sample:
    """What 1,000 claims have changed. A client of the reference lists all providers for their
    generations, and reads the allocations of those whose generation is another."""
    # Other consumers than those of the claims that are measured.
    lines = claim_lines(apart(arena), random.Random(2000 + arena.round))[:CHANGES]
    if not arena.is_berth:
        hosts = {uuid for line in lines for uuid in json.loads(line["body"])["allocations"]}
        paths = [f"/resource_providers/{uuid}/allocations" for uuid in sorted(hosts)]
        return in_turn(arena, ["/resource_providers", *paths])
    first = events(arena, None, lambda event: event["kind"] == "position")[0]["number"]
    arena.meter.replay(arena.service, lines, workers=32)
    left = CHANGES

    def is_last(event) -> bool:
        nonlocal left
        left -= event["kind"] == "consumer"
        return left == 0

    return timed(arena, lambda: events(arena, first, is_last))


def claims_that_are_told(arena: Arena) -> Sample:
    """The same as without events, for other consumers."""
    return claims(dataclasses.replace(arena, round=1000 + arena.round))


def apart(arena: Arena) -> Arena:
    """The arena of measurements that have consumers of their own."""
    return dataclasses.replace(arena, round=2000 + arena.round)


def events(arena: Arena, since: int | None, is_last) -> list[dict]:
    """The events after a number until one of them is the last."""
    connection = http.client.HTTPConnection(arena.service.addresses[0], timeout=60)
    path = "/-/v1/events" + (f"?since={since}" if since is not None else "")
    connection.request("GET", path, headers={"X-Auth-Token": "admin"})
    found = []
    for line in connection.getresponse():
        found.append(json.loads(line))
        if found[-1]["kind"] in ("gap", "end"):
            raise ValueError(f"the events end with {found[-1]}")
        if is_last(found[-1]):
            connection.close()
            return found
    raise ValueError("the events ended")


def in_turn(arena: Arena, paths: list[str]) -> Sample:
    """GETs one after the other, as one answer."""
    requests = [{"method": "GET", "path": path} for path in paths]
    return whole(arena.meter.replay(arena.service, requests, workers=1), len(paths))


def whole(sample: Sample, requests: int) -> Sample:
    """The sample of an answer for which so many requests are needed."""
    took = requests / sample.rate
    return dataclasses.replace(
        sample, rate=1 / took, p50=took, p99=took, cpu_server=sample.cpu_server * requests,
        cpu_database=sample.cpu_database * requests,
    )


def timed(arena: Arena, act) -> Sample:
    """What an act takes."""
    pids = arena.service.pids, [arena.cluster.pid]
    before = [servers.cpu_seconds(them) for them in pids]
    began = time.monotonic()
    act()
    took = time.monotonic() - began
    cpu = [servers.cpu_seconds(them) - was for them, was in zip(pids, before)]
    return Sample(1 / took, took, took, *cpu)


def question(name, cloud, measure, must, aim="", options=(), compared=True) -> Workload:
    """A row of the table; nothing is known that would limit it."""
    return Workload(
        name, cloud, measure, must, aim, limit="none", options=options, compared=compared
    )


HELD_100K = clouds.flat(100_000, consumers=200_000)
# With events and without, in turns: both replicas read what the other writes.
TOLD = dataclasses.replace(HELD, name="flat-10k-told")
TOLD_100K = dataclasses.replace(HELD_100K, name="flat-100k-told")

QUESTIONS = [
    row
    for cloud, size in ((HELD, "10k"), (HELD_100K, "100k"))
    for row in (
        question(
            f"explain why nothing fits, {size}", cloud, explain, "10 ms" if size == "100k" else ""
        ),
        question(f"how many more fit, {size}", cloud, fit, ""),
        question(
            f"read the whole cloud, {size}", cloud, whole_cloud(), "1 s" if size == "100k" else ""
        ),
        question(f"the same with all allocations, {size}", cloud, whole_cloud("allocations"), ""),
        question(f"candidates limit=1000 as stored, {size}", cloud, ordered(""), "", compared=False),
        question(
            f"candidates limit=1000, spread, {size}", cloud, ordered("&order=spread"),
            "0.5 of as stored",
        ),
        question(
            f"candidates limit=1000 by weights, {size}", cloud,
            ordered("&order=weights&weight=VCPU=1&weight=MEMORY_MB=2"), "0.5 of as stored",
            compared=False,
        ),
    )
] + [
    row
    for cloud, size in ((TOLD, "10k"), (TOLD_100K, "100k"))
    for row in (
        question(f"claims without --events, 32 clients, {size}", cloud, claims, "", compared=False),
        question(
            f"claims with --events, 32 clients, {size}", cloud, claims_that_are_told, "",
            options=EVENTS, compared=False,
        ),
        question(f"learn of 1,000 claims, {size}", cloud, changes, "", options=EVENTS),
    )
]  # fmt: skip
