"""How long a scrape of /metrics/cloud takes, next to reading the same figures by the Placement API as openstack-exporter
does: the list of providers, then inventories and usages of each."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from harness.environment import TARGET
from harness.postgres import Cluster
from harness.servers import running

import clouds

SERIES_OF_A_CLASS = 5


def main() -> None:
    options = argparse.ArgumentParser(prog="bench/figures", description=__doc__)
    options.add_argument("--providers", type=int, default=100_000, help="each has three inventories")
    options.add_argument("--rounds", type=int, default=10, help="scrapes")
    options.add_argument("--sample", type=int, default=2000, help="providers that are read by the API")
    options.add_argument("--berth", type=pathlib.Path, default=TARGET / "release" / "berth", help="program to measure")
    chosen = options.parse_args()
    load = os.getloadavg()[0]
    with Cluster(under="/var/tmp") as cluster, serving(cluster, chosen) as (api, admin, pid):
        api.request("GET", "/resource_providers", headers={"X-Auth-Token": "admin"})
        listed = json.loads(api.getresponse().read())["resource_providers"]
        took, cpu, body = scrapes(admin, pid, chosen.rounds)
        by_api = by_the_api(api, listed[: chosen.sample]) * len(listed)
    series = sum(1 for line in body.splitlines() if not line.startswith(b"#"))
    expected = len(listed) * 3 * SERIES_OF_A_CLASS + 1
    if series != expected:
        sys.exit(f"{series} series instead of {expected}")
    print(f"providers {len(listed)}, series {series}, {len(body) / 1e6:.1f} MB; load of the machine before: {load:.1f}")
    print(f"scrape: median {statistics.median(took):.2f} s, least {min(took):.2f} s, most {max(took):.2f} s")
    print(f"processor time of Berth for a scrape: {cpu:.2f} s")
    print(f"the same by the API, one request after the other: {by_api:.0f} s, from {chosen.sample} providers")
    print(f"ratio: {by_api / statistics.median(took):.0f}")


@contextlib.contextmanager
def serving(cluster: Cluster, chosen: argparse.Namespace):
    """Berth over a cloud of that size: connections to its API and its admin address, and its process."""
    cluster.create("berth")
    url = cluster.url("berth")
    subprocess.run([chosen.berth, "db", "migrate", "--database-url", url], check=True, capture_output=True)
    cloud = clouds.flat(chosen.providers, consumers=chosen.providers)
    cluster.execute(clouds.statements(cloud, "berth"), "berth")
    admin = []

    def listen(port: int) -> list[str]:
        admin.append(port + 1)
        return ["--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{port + 1}"]

    command = [chosen.berth, "serve", "--planner-listen", "none", "--database-url", url]
    with running("bench-figures", command, listen) as server:
        api = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=600)
        yield api, http.client.HTTPConnection(f"127.0.0.1:{admin[-1]}", timeout=600), server.pid


def scrapes(admin: http.client.HTTPConnection, pid: int, rounds: int) -> tuple[list[float], float, bytes]:
    """The seconds that each scrape took, processor seconds for each, and the last text."""
    took, body = [], b""
    before = cpu_seconds(pid)
    for _ in range(rounds):
        began = time.monotonic()
        admin.request("GET", "/metrics/cloud")
        body = admin.getresponse().read()
        took.append(time.monotonic() - began)
    return took, (cpu_seconds(pid) - before) / rounds, body


def by_the_api(api: http.client.HTTPConnection, providers: list[dict]) -> float:
    """Seconds for each provider."""
    began = time.monotonic()
    for provider in providers:
        for what in ("inventories", "usages"):
            api.request("GET", f"/resource_providers/{provider['uuid']}/{what}", headers={"X-Auth-Token": "admin"})
            json.loads(api.getresponse().read())
    return (time.monotonic() - began) / len(providers)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
