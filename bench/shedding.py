"""Overload: requests at multiples of the highest rate, over more connections than --max-requests allows requests.

Requests are sent when they are due, whether or not others have been answered. Printed are the requests that were served,
as a share of the highest rate, and their times from when they were due; the others got 503."""

import argparse
import itertools
import pathlib
import random

from harness.environment import REPOSITORY
from harness.postgres import Cluster

import clouds
import servers
from clouds import PROVIDER, uuid_of
from measure import Meter, Sample
from workloads import AMOUNTS, FLAT, put_claim, random_uuid

HOSTS = 10_000
CONNECTIONS = 4_000
# Connections at the highest rate.
WORKERS = 64


def candidates(draw: random.Random, count: int) -> list[dict]:
    """Requests as nova sends them."""
    return [{"method": "GET", "path": f"{FLAT}&limit=1000"}] * count


def claims(draw: random.Random, count: int) -> list[dict]:
    """New consumers on random hosts."""
    hosts = [uuid_of(PROVIDER, draw.randint(1, HOSTS)) for _ in range(count)]
    return [put_claim(random_uuid(draw), {host: AMOUNTS}) for host in hosts]


def main() -> None:
    options = argparse.ArgumentParser(prog="bench/overload", description=__doc__)
    options.add_argument("--max-requests", type=int, nargs="+", default=[1024, 128])
    options.add_argument("--times", type=float, nargs="+", default=[0.5, 1, 2, 4], help="multiples of the highest rate")
    options.add_argument("--seconds", type=float, default=8, help="length of one measurement")
    options.add_argument("--program", type=pathlib.Path, help="Berth, if not that of this tree")
    chosen = options.parse_args()
    servers.WORK.mkdir(parents=True, exist_ok=True)
    servers.build_load()
    if not chosen.program:
        servers.build(REPOSITORY)
    program = chosen.program or servers.BERTH
    print("| requests | --max-requests | offered | served | of the highest rate | p50, p99 |\n|---|---|---|---|---|---|")
    with Cluster(servers.SETTINGS, under="/var/tmp") as cluster:
        meter = Meter(cluster, chosen.seconds)
        for kind, most in itertools.product((candidates, claims), chosen.max_requests):
            name = servers.prepare_berth(cluster, clouds.flat(HOSTS), "overload", program)
            with servers.berth(cluster, name, options=("--max-requests", str(most)), program=program) as service:
                measure(meter, service, kind, most, chosen.times)
            cluster.drop(name)


def measure(meter: Meter, service: servers.Service, kind, max_requests: int, times: list[float]) -> None:
    draw = random.Random(1)
    # More than can be done.
    highest = meter.replay(service, kind(draw, 100_000), WORKERS, meter.seconds).rate
    for multiple in times:
        rate = highest * multiple
        sample = meter.paced_once(service, kind(draw, int(rate * meter.seconds)), rate, CONNECTIONS)
        print(row(kind, max_requests, rate, sample, highest), flush=True)


def row(kind, max_requests: int, rate: float, sample: Sample, highest: float) -> str:
    return (
        f"| {kind.__name__} | {max_requests:,} | {rate:,.0f}/s | {sample.rate:,.0f}/s "
        f"| {sample.rate / highest:.2f} | {sample.p50 * 1e3:.1f} ms, {sample.p99 * 1e3:.1f} ms |"
    )


if __name__ == "__main__":
    main()
