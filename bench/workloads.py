"""The table of workloads: what is asked of which cloud, and what is aimed at."""

import dataclasses
import json
import random
from typing import Callable

from harness.postgres import Cluster

import clouds
import servers
from clouds import AGGREGATE, CONSUMER, PROVIDER, uuid_of
from measure import Meter, Sample

FLAT = (
    "/allocation_candidates?resources=VCPU:1,DISK_GB:10,MEMORY_MB:256"
    f"&member_of={uuid_of(AGGREGATE, 1)}&required=HW_CPU_X86_AVX2"
)
NESTED = (
    "/allocation_candidates?resources=DISK_GB:10&required=COMPUTE_VOLUME_MULTI_ATTACH"
    "&resources_COMPUTE=VCPU:1,MEMORY_MB:512&resources_FPGA=FPGA:1"
    "&group_policy=none&same_subtree=_COMPUTE,_FPGA"
)
WIDE = (
    "/allocation_candidates?group_policy=none&"
    + "&".join(f"resources{n}=VGPU:1" for n in range(1, 7))
)
# What an instance holds.
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 128, "DISK_GB": 5}
# Claims that are written for a measurement of a few seconds; more than can be done.
CLAIMS = 60_000
SLOW_DELETES, DELETES = 1_000, 10_000
SLOW_RESHAPES, RESHAPES = 100, 1_000


@dataclasses.dataclass
class Arena:
    """Where a measurement takes place."""

    cluster: Cluster
    meter: Meter
    cloud: clouds.Cloud
    server: str
    database: str
    service: servers.Service
    round: int

    @property
    def is_berth(self) -> bool:
        return self.server == "berth"


@dataclasses.dataclass(frozen=True)
class Workload:
    """A row of the table. `limit`: what it is held against, and for GETs what bytes are sent."""

    name: str
    cloud: clouds.Cloud
    measure: Callable[[Arena], Sample]
    floor: str
    moon: str
    limit: str = "constant"
    paths: tuple[str, ...] = ()
    replicas: int = 1
    # What Berth is started with.
    options: tuple[str, ...] = ()
    # Whether the reference takes part.
    compared: bool = True
    # Where bytes are compared, the load on the handler that sends the same.
    connections: int = 4


def candidates(name, cloud, query, floor, moon, slow=False) -> Workload:
    """GETs of one query. Where the reference needs many seconds, one at a time."""

    connections = 1 if slow else 4

    def measure(arena: Arena) -> Sample:
        if arena.is_berth and not slow:
            return arena.meter.wrk(arena.service, [query], connections)
        # wrk counts what is answered in time; here the last answer is waited for.
        request = [{"method": "GET", "path": query}]
        return arena.meter.replay(arena.service, request, connections, arena.meter.seconds)

    return Workload(name, cloud, measure, floor, moon, paths=(query,), connections=connections)


def small(name, path, kind=PROVIDER, cloud=None) -> Workload:
    """GETs of a part of one provider or consumer, one after the other."""
    paths = [path.format(uuid_of(kind, 1 + n * 7)) for n in range(1000)]

    def measure(arena: Arena) -> Sample:
        return arena.meter.wrk(arena.service, paths, connections=32)

    return Workload(
        name, cloud or FLAT_10K, measure, "0.3 of limit", "0.6 of limit", paths=(paths[0],), connections=32
    )


def claims(arena: Arena) -> Sample:
    """New consumers on random hosts, by 32 clients of each replica."""
    return by_each_replicas_clients(arena, claim_lines(arena, random.Random(arena.round)))


def inventories(arena: Arena) -> Sample:
    """GETs of the inventories of one provider after the other, by 32 clients of each replica."""
    paths = (f"/resource_providers/{uuid_of(PROVIDER, n)}/inventories" for n in range(1, 1001))
    return by_each_replicas_clients(arena, [{"method": "GET", "path": path} for path in paths])


def by_each_replicas_clients(arena: Arena, requests: list[dict]) -> Sample:
    workers, seconds = 32 * len(arena.service.addresses), arena.meter.seconds
    return arena.meter.replay(arena.service, requests, workers=workers, seconds=seconds)


def over(replicas: int) -> list[Workload]:
    """Claims and reads over so many replicas, which have a cloud of their own, as HELD_BY_THREE has."""
    cloud = dataclasses.replace(HELD, name=f"flat-10k-held-{replicas}")
    return [
        Workload(
            f"{name}, 32 clients for each of {replicas} replicas", cloud, measure, "", "", limit="none", replicas=replicas,
            compared=False,
        )
        for name, measure in (("claims, random hosts", claims), ("GET inventories", inventories))
    ]  # fmt: skip


def claims_on_a_pool(arena: Arena) -> Sample:
    """New consumers on random hosts that all take their disk from one provider."""
    hosts = arena.cloud.providers - 1
    pool = uuid_of(PROVIDER, arena.cloud.providers)
    draw = random.Random(arena.round)
    requests = [
        put_claim(_consumer(arena, n), {
            uuid_of(PROVIDER, draw.randint(1, hosts)): {"VCPU": 1}, pool: {"DISK_GB": 1},
        })
        for n in range(CLAIMS)
    ]  # fmt: skip
    seconds = arena.meter.seconds
    return arena.meter.replay(
        arena.service, requests, workers=64, seconds=seconds, may_refuse=not arena.is_berth
    )


def boots(arena: Arena) -> Sample:
    """Candidates with nova's limit, then a claim of one of them."""
    return arena.meter.boots(arena.service, f"{FLAT}&limit=1000", workers=64)


def deletes(arena: Arena) -> Sample:
    """DELETE of consumers that hold three classes."""
    count = DELETES if arena.is_berth else SLOW_DELETES
    first = 1 + arena.round * count
    requests = [
        {"method": "DELETE", "path": f"/allocations/{uuid_of(CONSUMER, n)}"}
        for n in range(first, first + count)
    ]
    return arena.meter.replay(arena.service, requests, workers=32)


def reshapes(arena: Arena) -> Sample:
    """Moving a class and what is held of it from a root to its child, or back."""
    count = RESHAPES if arena.is_berth else SLOW_RESHAPES
    table = "providers" if arena.is_berth else "resource_providers"
    generations = dict(
        line.split("|")
        for source in (table, "consumers")
        for line in arena.cluster.execute(
            f"select uuid, generation from {source}", arena.database
        ).splitlines()
    )
    requests = [_reshape(n, arena.round % 2 == 0, generations) for n in range(1, count + 1)]
    return arena.meter.replay(arena.service, requests, workers=16)


def _reshape(tree: int, down: bool, generations: dict[str, str]) -> dict:
    root, child = uuid_of(PROVIDER, 2 * tree - 1), uuid_of(PROVIDER, 2 * tree)
    taker = child if down else root
    stocks = {root: {"VCPU": {"total": 32, "max_unit": 16}}, child: {}}
    stocks[taker]["VGPU"] = {"total": 8, "max_unit": 8}
    consumer = uuid_of(CONSUMER, tree)
    body = {
        "inventories": {
            uuid: {
                "resource_provider_generation": int(generations[uuid]), "inventories": stock
            }
            for uuid, stock in stocks.items()
        },
        "allocations": {
            consumer: {
                "allocations": {taker: {"resources": {"VGPU": 2}}},
                "consumer_generation": int(generations[consumer]),
                "project_id": "project", "user_id": "user",
            }
        },
    }  # fmt: skip
    return {"method": "POST", "path": "/reshaper", "body": json.dumps(body)}


def under_claims(arena: Arena) -> Sample:
    """Candidates at a fixed rate while claims are written at another, three replicas for both."""
    lines = claim_lines(arena, random.Random(1000 + arena.round))
    file = servers.WORK / "background"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    background = arena.meter.start(arena.service, file, rate=CLAIM_RATE, workers=32)
    try:
        return arena.meter.paced(arena.service, [f"{FLAT}&limit=1000"], CANDIDATE_RATE, workers=8)
    finally:
        background.terminate()
        background.wait()


def alone(arena: Arena) -> Sample:
    """Candidates for one client that asks again when it has its answer."""
    return arena.meter.wrk(arena.service, [f"{FLAT}&limit=1000"], connections=1)


def claim_lines(arena: Arena, draw: random.Random) -> list[dict]:
    """Claims of three classes on random hosts."""
    hosts = arena.cloud.providers
    return [
        put_claim(_consumer(arena, n), {uuid_of(PROVIDER, draw.randint(1, hosts)): AMOUNTS})
        for n in range(CLAIMS)
    ]


def put_claim(consumer: str, wants: dict[str, dict[str, int]]) -> dict:
    """A request that claims for a new consumer."""
    body = {
        "allocations": {uuid: {"resources": amounts} for uuid, amounts in wants.items()},
        "consumer_generation": None, "project_id": "project", "user_id": "user",
    }  # fmt: skip
    return {"method": "PUT", "path": f"/allocations/{consumer}", "body": json.dumps(body)}


def _consumer(arena: Arena, number: int) -> str:
    """A consumer that no other measurement has; its UUID is as random as a client's."""
    seed = f"{arena.cloud.name} {arena.round} {number}"
    return str(random_uuid(random.Random(seed)))


def random_uuid(draw: random.Random) -> str:
    text = f"{draw.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"


CLAIM_RATE, CANDIDATE_RATE = 500, 100

FLAT_1K, FLAT_10K, FLAT_100K, FLAT_1M = (clouds.flat(n) for n in (1_000, 10_000, 100_000, 1_000_000))
HELD = clouds.flat(10_000, consumers=80_000)
# Consumers that nobody deletes.
READ = dataclasses.replace(HELD, name="flat-10k-read")
# Replicas that are not asked read changes too: they have a cloud of their own.
HELD_BY_THREE = dataclasses.replace(HELD, name="flat-10k-held-3")
FLAT_100K_BY_THREE = dataclasses.replace(FLAT_100K, name="flat-100k-3")

WORKLOADS = [
    candidates("candidates, flat 1k, no limit", FLAT_1K, FLAT, "50x", "150x"),
    candidates("candidates, flat 10k, no limit", FLAT_10K, FLAT, "100x", "0.67 of limit"),
    candidates(
        "candidates, flat 10k, limit=1000", FLAT_10K, f"{FLAT}&limit=1000", "500x", "2000x"
    ),
    candidates(
        "candidates, flat 100k, limit=1000, one at a time", FLAT_100K, f"{FLAT}&limit=1000",
        "5000x", "20000x", slow=True,
    ),
    candidates("candidates, nested 1000 trees of 7", clouds.nested(1000), NESTED, "50x", "200x"),
    candidates(
        "candidates, 8 devices, 6 groups, all 20,160, one at a time", clouds.wide(), WIDE,
        "300x", "1000x", slow=True,
    ),
    small("GET a provider", "/resource_providers/{}"),
    small("GET its inventories", "/resource_providers/{}/inventories"),
    small("GET its traits", "/resource_providers/{}/traits"),
    small("GET its usages", "/resource_providers/{}/usages"),
    small("GET its allocations, 8 consumers", "/resource_providers/{}/allocations", cloud=READ),
    small("GET the allocations of a consumer", "/allocations/{}", kind=CONSUMER, cloud=READ),
    Workload(
        "claims, random hosts, 32 clients", HELD, claims, "15x, 0.5 of limit",
        "60x, 2.0 of limit", limit="simple-update",
    ),
    Workload(
        "claims, all on one sharing provider, 64 clients", clouds.pool(1000), claims_on_a_pool,
        "no 409, serial fsync", "1.0 of limit", limit="simple-update",
    ),
    Workload(
        "boots: candidates limit=1000, then a claim; 64 workers, 3 replicas", HELD_BY_THREE, boots, "30x",
        "100x, 3000/s", limit="none", replicas=3,
    ),
    Workload(
        "delete 10k consumers, 32 clients", HELD, deletes, "15x", "60x", limit="simple-update"
    ),
    Workload(
        "reshape 1,000 trees, 16 clients", clouds.pairs(1000), reshapes, "10x", "30x",
        limit="simple-update",
    ),
    Workload(
        f"candidates limit=1000 at {CANDIDATE_RATE}/s, flat 100k, 3 replicas, {CLAIM_RATE} claims/s",
        FLAT_100K_BY_THREE, under_claims, "p99 10 ms", "p99 3 ms", limit="none", replicas=3, compared=False,
    ),
    *over(2),
    *over(4),
    *over(8),
    Workload(
        "candidates limit=1000, one client, flat 10k", FLAT_10K, alone, "", "", limit="none",
        compared=False,
    ),
    Workload(
        "candidates limit=1000, one client, flat 1M", FLAT_1M, alone, "", "p50 1.5x that at 10k",
        limit="none", compared=False,
    ),
]  # fmt: skip
