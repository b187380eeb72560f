"""The day of a cloud: the requests of its services, in their proportions, at growing rates over kept connections.

For each host and minute, nova-compute reads the allocations of the provider and of every instance, and for each five
minutes the tree, its inventories, aggregates and traits; an exporter reads three parts of each provider in five
minutes. For each host and hour there is a boot (candidates and a claim) and a delete, and in five hours a resize or a
migration (two consumers are written, and one is deleted later).

The rate grows until the 99th percentile exceeds 50 ms. Hosts carried are this rate by the requests of a host; hosts by
processor time are those whose requests take all processors, without the driver, which runs beside the servers."""

import argparse
import dataclasses
import json
import pathlib
import random
import resource
from typing import Iterator

from harness.environment import REPOSITORY
from harness.postgres import Cluster

import clouds
import servers
from clouds import CONSUMER, PROVIDER, uuid_of
from measure import Meter, Sample
from workloads import AMOUNTS, FLAT, put_claim

INSTANCES = 20
P99_MAX = 0.05
# Share of the offered rate that must be done.
DONE_MIN = 0.97
GROWTH = 1.35
# Measurements of a rate, of which one must be in time: the machine has other work, too.
ATTEMPTS = 2
# Descriptors that are not connections of clients.
OTHER_FILES = 1000
# Connections with which the reference is asked, because it closes each after one request.
REFERENCE_WORKERS = 64

# Requests of a host in an hour.
HOURLY = {
    "provider_allocations": 60,
    "consumer_allocations": 60 * INSTANCES,
    "tree": 12,
    "inventories": 12 + 12,
    "aggregates": 12,
    "traits": 12,
    "usages": 12,
    "scraped_allocations": 12,
    "candidates": 1,
    "claim": 1,
    "delete": 1,
    "move": 0.2,
    "confirm": 0.2,
}
# Requests that read a random provider.
READS = {
    "provider_allocations": "/resource_providers/{}/allocations",
    "tree": "/resource_providers?in_tree={}",
    "inventories": "/resource_providers/{}/inventories",
    "aggregates": "/resource_providers/{}/aggregates",
    "traits": "/resource_providers/{}/traits",
    "usages": "/resource_providers/{}/usages",
    "scraped_allocations": "/resource_providers/{}/allocations",
}
PER_HOST_AND_SECOND = sum(HOURLY.values()) / 3600


@dataclasses.dataclass
class Day:
    """The requests of a cloud. No consumer is written twice."""

    hosts: int
    draw: random.Random = dataclasses.field(default_factory=lambda: random.Random(1))
    booted: int = 0
    deleted: int = 0
    moved: list[int] = dataclasses.field(default_factory=list)
    confirmed: int = 0

    def requests(self, count: int) -> Iterator[dict]:
        """The next requests, in a random order."""
        kinds = self.draw.choices(list(HOURLY), list(HOURLY.values()), k=count)
        for kind in kinds:
            path = READS.get(kind)
            yield self.get(path.format(self.provider())) if path else getattr(self, kind)()

    def provider(self) -> str:
        return uuid_of(PROVIDER, self.draw.randint(1, self.hosts))

    def get(self, path: str) -> dict:
        return {"method": "GET", "path": path}

    def consumer_allocations(self) -> dict:
        consumer = self.draw.randint(1, self.hosts * INSTANCES)
        return self.get(f"/allocations/{uuid_of(CONSUMER, consumer)}")

    def candidates(self) -> dict:
        return self.get(f"{FLAT}&limit=1000")

    def claim(self) -> dict:
        self.booted += 1
        consumer = uuid_of(BOOTED, self.booted)
        return put_claim(consumer, {self.provider(): AMOUNTS})

    def delete(self) -> dict:
        self.deleted += 1
        # From one end of the instances; those that move are from the other.
        return {"method": "DELETE", "path": f"/allocations/{uuid_of(CONSUMER, self.deleted)}"}

    def move(self) -> dict:
        """What nova writes at the beginning of a move: the instance on the new host, the migration on the old one."""
        number = self.hosts * INSTANCES - len(self.moved)
        self.moved.append(number)
        old = uuid_of(PROVIDER, 1 + number % self.hosts)
        body = {
            uuid_of(CONSUMER, number): _held(self.provider(), 1),
            uuid_of(MIGRATION, number): _held(old, None),
        }
        return {"method": "POST", "path": "/allocations", "body": json.dumps(body)}

    def confirm(self) -> dict:
        """The end of a move, whose beginning was long ago."""
        if self.confirmed + MOVES_OPEN >= len(self.moved):
            return self.move()
        number = self.moved[self.confirmed]
        self.confirmed += 1
        return {"method": "DELETE", "path": f"/allocations/{uuid_of(MIGRATION, number)}"}


# Kinds of consumers, beside those of the cloud.
BOOTED, MIGRATION = 4, 5
# Moves that are in progress at any time, so that none is confirmed before it was written.
MOVES_OPEN = 50


def _held(provider: str, generation: int | None) -> dict:
    return {
        "allocations": {provider: {"resources": AMOUNTS}},
        "consumer_generation": generation, "project_id": "project", "user_id": "user",
    }  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(
        prog="bench/day", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--hosts", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options.add_argument("--reference-hosts", type=int, nargs="*", default=[1_000], help="clouds for the reference")
    options.add_argument("--connections", type=int, default=20_000, help="kept connections to Berth")
    options.add_argument("--seconds", type=float, default=10, help="length of one measurement")
    options.add_argument("--program", type=pathlib.Path, help="Berth, if not that of this tree")
    chosen = options.parse_args()
    connections = min(chosen.connections, _files() - OTHER_FILES)
    if connections < chosen.connections:
        print(f"The limit of open files allows only {connections:,} connections.", flush=True)
    servers.WORK.mkdir(parents=True, exist_ok=True)
    servers.build_load()
    if not chosen.program:
        servers.build(REPOSITORY)
    print(
        "| server | hosts | instances | hosts carried | rate | p50, p99 | CPU for a host and second "
        "| hosts by processor time | memory |\n|---|---|---|---|---|---|---|---|---|"
    )
    with Cluster(servers.SETTINGS, under="/var/tmp") as cluster:
        meter = Meter(cluster, chosen.seconds)
        for hosts in chosen.hosts:
            cloud = clouds.flat(hosts, hosts * INSTANCES)
            if hosts in chosen.reference_hosts:
                name = servers.prepare_reference(cluster, cloud, "reference")
                cluster.execute("checkpoint")
                with servers.reference(cluster, name) as service:
                    print(row("reference", hosts, service, climb(meter, service, hosts, REFERENCE_WORKERS)), flush=True)
                cluster.drop(name)
            program = chosen.program or servers.BERTH
            name = servers.prepare_berth(cluster, cloud, "berth", program)
            cluster.execute("checkpoint")
            more = ("--max-connections", str(connections + 100))
            with servers.berth(cluster, name, options=more, program=program) as service:
                print(row("Berth", hosts, service, climb(meter, service, hosts, connections)), flush=True)
            cluster.drop(name)


def climb(meter: Meter, service: servers.Service, hosts: int, workers: int) -> Sample:
    """The sample at the highest rate whose 99th percentile is in time."""
    day, best = Day(hosts), None
    rate = 50.0 if service.fresh else 1000.0
    # The first requests meet a server that has just started.
    meter.paced_once(service, list(day.requests(int(rate * meter.seconds))), rate, workers)
    while True:
        for _ in range(ATTEMPTS):
            requests = list(day.requests(int(rate * meter.seconds)))
            sample = meter.paced_once(service, requests, rate, workers)
            is_in_time = sample.p99 <= P99_MAX and sample.rate >= DONE_MIN * rate
            if is_in_time:
                break
        if not is_in_time:
            return best or sample
        best = sample
        rate *= GROWTH


def row(server: str, hosts: int, service: servers.Service, sample: Sample) -> str:
    each = (sample.cpu_server + sample.cpu_database) * PER_HOST_AND_SECOND
    parts = (sample.cpu_server * PER_HOST_AND_SECOND * 1e6, sample.cpu_database * PER_HOST_AND_SECOND * 1e6)
    return (
        f"| {server} | {hosts:,} | {hosts * INSTANCES:,} | {sample.rate / PER_HOST_AND_SECOND:,.0f} | {sample.rate:,.0f}/s "
        f"| {sample.p50 * 1e3:.2f} ms, {sample.p99 * 1e3:.1f} ms | {parts[0]:.1f} + {parts[1]:.1f} us "
        f"| {servers.CORES / each:,.0f} | {service.resident() / 1e6:,.0f} MB |"
    )


def _files() -> int:
    """The limit of open files, raised as far as it may be."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


if __name__ == "__main__":
    main()
