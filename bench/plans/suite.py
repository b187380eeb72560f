"""Plans of Berth beside CP-SAT's and those of a greedy, on 45 instances with fixed seeds."""

import argparse
import os
import re
import statistics
import sys
import time

from harness.postgres import Cluster

import service
import checker
import cost
import cpsat
import greedy
import instances
import table


# Policies besides that of plans that name none.
POLICIES = {
    "pack, racks": {"name": "pack", "level": "rack"},
    "spread": {"name": "spread"},
    "balance": {"name": "balance"},
}
# How quickly the first placement is there differs from request to request: the median of these and
# the measured one counts.
MORE_FIRSTS = 4


def main() -> None:
    options = argparse.ArgumentParser(prog="bench/plans/run", description=__doc__)
    options.add_argument("--seconds", type=int, default=2, help="the time of each solver")
    options.add_argument("--workers", type=int, default=os.cpu_count(), help="threads of CP-SAT")
    options.add_argument("--only", default="", metavar="REGEX", help="instances, by name")
    options.add_argument("--without-cpsat", action="store_true", help="measure Berth and the greedy")
    options.add_argument("--record", action="store_true", help="write the tables of docs/benchmarks.md and bench/plans/results.md")
    chosen = options.parse_args()
    names = [name for name in instances.names() if re.search(chosen.only, name)]
    if not names:
        sys.exit(f"no instance is called {chosen.only!r}")
    if not service.PROGRAM.is_file():
        sys.exit(f"{service.PROGRAM} is missing: run `cargo build --release --locked`")
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"The machine is busy already (load {load:.1f}): the figures will show it.", flush=True)
    run = table.Run(chosen.seconds, chosen.workers, load)
    try:
        with Cluster(service.SETTINGS, under="/var/tmp") as cluster:
            for name in names:
                row = measure(cluster, instances.make(name), chosen)
                run.rows.append(row)
                print(table.line(row), flush=True)
    finally:
        # What has been measured is shown even if the rest cannot be.
        print(table.render(run))
    if chosen.record:
        table.record(run)


def measure(cluster: Cluster, instance: instances.Instance, chosen) -> table.Row:
    """One instance, with each of the planners after the other."""
    row = table.Row(instance)
    began = time.monotonic()
    placement = greedy.solve(instance)
    row.greedy_took = time.monotonic() - began
    if placement is not None:
        row.greedy = checked(instance, placement, "the greedy")
    if not chosen.without_cpsat:
        for few in (False, True):
            result = cpsat.solve(instance, chosen.seconds, chosen.workers, placement, few)
            if result is None:
                continue
            if result.placement is not None:
                checked(instance, result.placement, "CP-SAT")
            row.add_cpsat(result, few)
    with service.serving(cluster, instance) as planner:
        # The first request of a server also fills its caches.
        service.plan(planner, instance, 1)
        row.berth = service.plan(planner, instance, chosen.seconds)
        firsts = [row.berth.first] + [service.plan(planner, instance, 1).first for _ in range(MORE_FIRSTS)]
        known = [first for first in firsts if first is not None]
        row.berth.first = statistics.median(known) if known else None
        for name, policy in POLICIES.items():
            row.policies[name] = service.plan_under(planner, instance, chosen.seconds, policy)
    if row.berth.placement is not None:
        ours = checked(instance, row.berth.placement, "Berth")
        if ours != row.berth.cost:
            sys.exit(f"{instance.name}: Berth says its plan costs {row.berth.cost}; it costs {ours}.")
    return row


def checked(instance: instances.Instance, placement: list[int], of: str) -> tuple[int, ...]:
    """The cost of a placement, once it is known to keep all rules."""
    faults = checker.faults(instance, placement)
    if faults:
        sys.exit(f"{instance.name}: the placement of {of} is none: {faults}")
    return cost.of(instance, placement)


if __name__ == "__main__":
    main()
