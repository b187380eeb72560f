"""Measure what clients see while the database under two replicas of Berth fails over.

Two PostgreSQL under Patroni with etcd (--cluster patroni), or two with plain streaming replication
that are promoted by hand (--cluster streaming); two replicas of Berth over them; HAProxy in front.
Replicas find the primary through HAProxy, or by the addresses of both (--through). One fault after
the other is caused under a light load, and a table says what clients saw.

Needs Debian's etcd-server, haproxy and postgresql, and a built berth.
"""

import argparse
import datetime
import pathlib
import shutil
import subprocess
import sys
import tempfile

from faults import BY_HAND, PATRONI, Outcome, by_hand, under_patroni
from harness.servers import find_berth
from nodes import Cluster, Node, Replicas
from processes import PROGRAMS, command

COLUMNS = [
    "fault", "claims", "lost", "stale reads", "503", "other", "no answer", "slowest answer",
    "promoted after", "reads back", "claims back", "longest without read", "without claim",
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cluster", choices=["patroni", "streaming"], default="patroni")
    parser.add_argument("--through", choices=["haproxy", "hosts"], default="hosts")
    parser.add_argument(
        "--option", action="append", default=[], help="a further option of berth serve"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    parser.add_argument("faults", nargs="*", help=f"of {PATRONI} or {BY_HAND}; none: all")
    chosen = parser.parse_args()
    known = PATRONI if chosen.cluster == "patroni" else BY_HAND
    if unknown := set(chosen.faults) - set(known):
        parser.error(f"{', '.join(sorted(unknown))}: not a fault of {chosen.cluster}")
    if chosen.cluster == "streaming" and chosen.through == "haproxy":
        parser.error("HAProxy asks Patroni which node is primary; choose --through hosts")
    _check_python()

    folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-ha-"))
    folder.chmod(0o755)
    print(_head(chosen), flush=True)
    outcomes = []
    try:
        for outcome in _outcomes(chosen, folder, chosen.faults or known):
            outcomes.append(outcome)
            print(_row(outcome), flush=True)
    finally:
        if chosen.keep:
            print(f"\nlogs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return int(any(outcome.lost or outcome.audit for outcome in outcomes))


def _outcomes(chosen: argparse.Namespace, folder: pathlib.Path, faults: list[str]):
    def make_replicas(folder: pathlib.Path, nodes: list[Node]) -> Replicas:
        return Replicas(folder, chosen.option, nodes, chosen.through)

    if chosen.cluster == "streaming":
        yield from by_hand(folder, make_replicas, faults)
        return
    cluster = Cluster(folder)
    replicas = None
    try:
        cluster.start()
        replicas = make_replicas(folder, cluster.nodes)
        replicas.start()
        yield from under_patroni(cluster, replicas, faults)
    finally:
        if replicas:
            replicas.stop()
        cluster.stop()


def _head(chosen: argparse.Namespace) -> str:
    versions = [
        _first_line(PROGRAMS / "postgres", "--version"),
        _first_line(find_berth(), "--version"),
    ]
    if chosen.cluster == "patroni":
        versions.append(_first_line(pathlib.Path(sys.executable).with_name("patroni"), "--version"))
    options = "".join(f" {option}" for option in chosen.option)
    return "\n".join([
        f"{datetime.date.today()}: {', '.join(versions)}; {chosen.cluster}, replicas find the "
        f"primary through {chosen.through}{', with' if options else ''}{options}",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
    ])  # fmt: skip


def _row(outcome: Outcome) -> str:
    seen = outcome.figures
    cells = [
        outcome.fault, seen.acknowledged, outcome.lost, f"{seen.stale} of {seen.reads}",
        seen.refused, seen.other, seen.unanswered, _seconds(seen.slowest),
        _seconds(outcome.promoted), _seconds(seen.reads_back), _seconds(seen.claims_back),
        _seconds(seen.longest_without_read), _seconds(seen.longest_without_claim),
    ]  # fmt: skip
    audit = f"\n\nberth db check: {outcome.audit}" if outcome.audit else ""
    return f"| {' | '.join(str(cell) for cell in cells)} |{audit}"


def _seconds(time: float | None) -> str:
    return "" if time is None else f"{time:.2f} s"


def _first_line(*parts) -> str:
    words = [str(part) for part in parts]
    return subprocess.run(words, capture_output=True, text=True).stdout.split("\n")[0]


def _check_python() -> None:
    if subprocess.run(command(sys.executable, "-c", "import patroni"), cwd="/").returncode != 0:
        sys.exit(
            f"PostgreSQL's user cannot run {sys.executable} with its packages: start this with a "
            "Python of the system, from a folder that everybody can enter."
        )


if __name__ == "__main__":
    sys.exit(main())
