"""The benchmark: Berth and the reference, side by side on one PostgreSQL, in turns."""

import argparse
import contextlib
import json
import os
import re
import sys
import time
import urllib.request

from harness.postgres import Cluster

import measure
import servers
import table
from questions import QUESTIONS
from workloads import WORKLOADS, Arena, Workload

# One replica without options.
ALONE = (1, ())


def main() -> None:
    options = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    options.add_argument("--rounds", type=int, default=5, help="measurements of each workload")
    options.add_argument("--seconds", type=float, default=4, help="length of one measurement")
    options.add_argument("--only", default="", metavar="REGEX", help="workloads to run, by name")
    options.add_argument("--without-reference", action="store_true", help="measure Berth alone")
    options.add_argument(
        "--questions", action="store_true",
        help="measure what the published API has no answer for, instead of that API",
    )
    options.add_argument("--record", action="store_true", help="put the table into docs/benchmarks.md")
    chosen = options.parse_args()
    table_of = QUESTIONS if chosen.questions else WORKLOADS
    workloads = [it for it in table_of if re.search(chosen.only, it.name)]
    if not workloads:
        sys.exit(f"no workload is called {chosen.only!r}")
    servers.WORK.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    if load > 0.5 * servers.CORES:
        print(f"The machine is busy already (load {load:.1f}): the figures will show it.", flush=True)
    run = table.Run(load_before=load, rounds=chosen.rounds, seconds=chosen.seconds)
    with Cluster(servers.SETTINGS, under="/var/tmp") as cluster:
        meter = measure.Meter(cluster, chosen.seconds)
        cluster.create("pgbench")
        cluster.tool("pgbench", "-i", "-q", "-s", 10, "-h", cluster.folder, "-U", "berth", "pgbench")
        try:
            for cloud in dict.fromkeys(it.cloud for it in workloads):
                here = [it for it in workloads if it.cloud == cloud]
                bench_cloud(cluster, meter, cloud, here, not chosen.without_reference, run)
        finally:
            # What has been measured is shown even if the rest cannot be.
            print(table.render(run, goals=True))
    if chosen.record:
        table.record(run, "questions" if chosen.questions else "workloads")


def bench_cloud(cluster, meter, cloud, workloads: list[Workload], compared: bool, run) -> None:
    """All rounds of all workloads over one cloud."""
    progress(f"{cloud.name}: {cloud.providers} providers")
    compared = compared and any(it.compared for it in workloads)
    names = servers.prepare(cluster, cloud, ["berth", *(["reference"] if compared else [])])
    # What the seeding left to write is not to be written while measuring.
    cluster.execute("checkpoint")
    with contextlib.ExitStack() as running:
        services = {}
        for kind in sorted({(it.replicas, it.options) for it in workloads}):
            began = time.monotonic()
            service = running.enter_context(servers.berth(cluster, names["berth"], *kind))
            services["berth", *kind] = service
            if kind == ALONE:
                run.note_start(cloud, time.monotonic() - began, service.resident())
        if compared:
            services["reference", *ALONE] = running.enter_context(
                servers.reference(cluster, names["reference"])
            )
            check_equal(services, workloads)
        for number in range(run.rounds):
            for workload in workloads:
                arenas = [
                    Arena(cluster, meter, cloud, server, names[server], service, number)
                    for (server, *kind), service in services.items()
                    if server == "reference" and workload.compared
                    or server == "berth" and kind == [workload.replicas, workload.options]
                ]
                # Whoever comes second may find a warmer machine: they take turns at it.
                for arena in arenas if number % 2 else reversed(arenas):
                    run.add(workload, arena.server, workload.measure(arena))
                ours = services["berth", workload.replicas, workload.options]
                run.add_limit(workload, limit_of(workload, meter, ours))
                progress(f"round {number + 1}: {run.line(workload)}")
    for name in names.values():
        cluster.drop(name)


def limit_of(workload: Workload, meter: measure.Meter, service: servers.Service) -> float | None:
    """What the machine can do of this kind, in requests a second."""
    if workload.limit == "simple-update":
        return meter.simple_update()
    if workload.limit != "constant":
        return None
    with servers.constant(get(service, workload.paths[0])) as handler:
        return meter.wrk(handler, list(workload.paths), workload.connections).rate


def check_equal(services: dict, workloads: list[Workload]) -> None:
    """Stop unless both servers give the same candidates."""
    queries = {it.paths[0].split("&limit=")[0] for it in workloads if it.compared and it.paths}
    for query in sorted(queries):
        ours, theirs = (
            canonical(json.loads(get(services[server, *ALONE], query))) for server in ("berth", "reference")
        )
        if ours != theirs:
            sys.exit(f"The servers answer {query} differently.")
        progress(f"both answer {query[:60]} the same")


def canonical(answer):
    """An answer with what has no order in an order, and without what may differ."""
    if isinstance(answer, dict):
        kept = {key: value for key, value in answer.items() if key != "generation"}
        return {key: canonical(value) for key, value in sorted(kept.items())}
    if isinstance(answer, list):
        return sorted((canonical(item) for item in answer), key=lambda item: json.dumps(item))
    return answer


def get(service: servers.Service, path: str) -> bytes:
    """The body of an answer."""
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": measure.VERSION}
    request = urllib.request.Request(service.url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return answer.read()


def progress(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
