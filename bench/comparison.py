"""Two states of Berth, measured in turns over databases of one PostgreSQL.

The processor time of the server and of PostgreSQL for each request is compared. The first state runs twice, as
two servers: by how much they differ is the noise of the run."""

import argparse
import contextlib
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

from harness.environment import REPOSITORY
from harness.postgres import Cluster

import measure
import servers
from workloads import WORKLOADS, Arena, Workload

# A difference counts if it is twice the noise, and at least this.
LEAST = 0.02
# Fewer rounds do not show the noise, so nothing is said of them.
ROUNDS = 5
FIRST, AGAIN, SECOND = "a", "a2", "b"


def main() -> None:
    options = argparse.ArgumentParser(prog="bench/compare", description=__doc__)
    options.add_argument("first", help="a commit, or the path of a built program")
    options.add_argument("second", help="another one")
    options.add_argument("--rounds", type=int, default=7, help="measurements of each workload")
    options.add_argument("--seconds", type=float, default=3, help="length of one measurement")
    options.add_argument("--only", default="", metavar="REGEX", help="workloads to run, by name")
    chosen = options.parse_args()
    workloads = [it for it in WORKLOADS if it.replicas == 1 and re.search(chosen.only, it.name)]
    if not workloads:
        sys.exit(f"no workload of one replica is called {chosen.only!r}")
    servers.WORK.mkdir(parents=True, exist_ok=True)
    servers.build_load()
    first, second = built(chosen.first), built(chosen.second)
    programs = {FIRST: first, AGAIN: first, SECOND: second}
    print("| workload | CPU for each: first | second | second / first | noise | |\n|---|---|---|---|---|---|")
    with Cluster(servers.SETTINGS, under="/var/tmp") as cluster:
        meter = measure.Meter(cluster, chosen.seconds)
        for cloud in dict.fromkeys(it.cloud for it in workloads):
            here = [it for it in workloads if it.cloud == cloud]
            for workload, samples in measured(cluster, meter, cloud, here, programs, chosen.rounds):
                print(row(workload, samples), flush=True)


def built(state: str) -> pathlib.Path:
    """The program of a state, built if it is a commit that has not been built yet."""
    if pathlib.Path(state).is_file():
        return pathlib.Path(state).resolve()
    commit = git("rev-parse", "--verify", "--quiet", f"{state}^{{commit}}").strip()
    program = servers.WORK / "programs" / commit
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        tree = servers.WORK / "worktree"
        git("worktree", "add", "--force", "--detach", str(tree), commit)
        try:
            servers.build(tree, "--target-dir", servers.WORK / "target")
        finally:
            git("worktree", "remove", "--force", str(tree))
        shutil.copy(servers.WORK / "target" / "release" / "berth", program)
    return program


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"git {' '.join(arguments)} failed: {done.stderr or 'there is no such commit'}")
    return done.stdout


def measured(cluster, meter, cloud, workloads: list[Workload], programs, rounds: int):
    """The samples of each workload over one cloud, by server."""
    names = {
        label: servers.prepare_berth(cluster, cloud, label, program)
        for label, program in programs.items()
    }
    cluster.execute("checkpoint")
    for workload in workloads:
        samples = {label: [] for label in programs}
        with contextlib.ExitStack() as running:
            services = {
                label: running.enter_context(
                    servers.berth(cluster, names[label], 1, workload.options, program)
                )
                for label, program in programs.items()
            }
            for number in range(rounds):
                order = list(programs)
                # Each is first, second and last equally often.
                for label in order[number % 3 :] + order[: number % 3]:
                    arena = Arena(
                        cluster, meter, cloud, "berth", names[label], services[label], number
                    )
                    samples[label].append(workload.measure(arena))
        yield workload, samples
    for name in names.values():
        cluster.drop(name)


def row(workload: Workload, samples: dict[str, list[measure.Sample]]) -> str:
    """A workload with both medians, their ratio, and the noise."""
    cpu = {
        label: [it.cpu_server + it.cpu_database for it in rounds] for label, rounds in samples.items()
    }
    first = [statistics.mean(pair) for pair in zip(cpu[FIRST], cpu[AGAIN])]
    ratios = [b / a for a, b in zip(first, cpu[SECOND])]
    ratio = statistics.median(ratios)
    same = [again / once for once, again in zip(cpu[FIRST], cpu[AGAIN])]
    spreads = spread(same) + spread(ratios)
    noise = abs(statistics.median(same) - 1) + spreads / len(same) ** 0.5
    moved = len(ratios) >= ROUNDS and abs(ratio - 1) > max(LEAST, 2 * noise)
    verdict = ("slower" if ratio > 1 else "faster") if moved else ""
    both = samples[FIRST] + samples[AGAIN]
    return (
        f"| {workload.name} | {parts(both)} | {parts(samples[SECOND])} | {ratio:.3f} | {noise:.3f} | {verdict} |"
    )


def spread(values: list[float]) -> float:
    """The standard deviation, by the median of the deviations: one measurement that was disturbed does not count."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


def parts(samples: list[measure.Sample]) -> str:
    """The medians of the server's and of PostgreSQL's processor time."""
    server = statistics.median(it.cpu_server for it in samples)
    database = statistics.median(it.cpu_database for it in samples)
    return f"{server * 1e6:,.0f} + {database * 1e6:,.0f} us"


if __name__ == "__main__":
    main()
