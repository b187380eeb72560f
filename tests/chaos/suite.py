"""Berth while everything below it fails: the program behind `tests/chaos/run`."""

import argparse
import asyncio
import pathlib
import random
import signal
import sys
import time
import unittest

import report
import stage as stages
import trial
import verdict
from faults import Faults
from harness import cases
from planted import DEFECTS

# What a run of less than a minute does: each of these once, half of them on each route.
IMPORTANT = {
    stages.PROXY: ["replica-kill", "replica-restart", "database-kill", "failover-kill", "cut-after-commit"],
    stages.HOSTS: ["replica-freeze", "switch-over", "failover-frozen", "cut", "standby-kill"],
}
# More patient than a run by hand: the machine that builds has other things to do.
SMALL = {"once": True, "quiet": 1.5, "after": 5, "deposed": 5}
# So many defects are planted at once, each in a world of its own.
PLANTED_TOGETHER = 3
# A defect shows at random; on a slow machine it may take longer to come up.
PLANTED_SECONDS = [3, 6, 20]


def main() -> int:
    chosen = arguments()
    # A `kill` must leave nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if chosen.seed is None:
        chosen.seed = random.SystemRandom().getrandbits(31)
    if chosen.small:
        for name, value in SMALL.items():
            setattr(chosen, name, value)
    failed = 0
    if chosen.small or chosen.unit:
        failed += unit_tests()
    if chosen.small:
        for route, faults in IMPORTANT.items():
            chosen.route, chosen.faults = route, faults
            chosen.planted = list(DEFECTS) if route == stages.PROXY else []
            failed += on_a_stage(chosen, True)
    elif not chosen.unit:
        failed += on_a_stage(chosen, not chosen.planted)
    return 1 if failed else 0


def on_a_stage(chosen: argparse.Namespace, with_faults: bool) -> int:
    """Start everything, run what is chosen, and end everything; return how much failed."""
    failed = 0
    with stages.temporary_folder(chosen.keep) as folder:
        small_disks = with_faults and "disk-full" in chosen.faults
        stage = stages.Stage(folder, chosen.route, chosen.replicas, small_disks, chosen.lease)
        try:
            stage.start()
            if with_faults:
                failed += asyncio.run(run(chosen, stage))
            # Last, because it leaves contradictions behind.
            if chosen.planted:
                failed += asyncio.run(planted(chosen, stage))
        finally:
            stage.stop()
            if chosen.keep:
                print(f"All files are in {folder}")
    return failed


def unit_tests() -> int:
    """The tests of the checkers themselves; return how many failed."""
    result = cases.Result()
    unittest.defaultTestLoader.loadTestsFromNames(["test_checkers", "test_copies", "test_verdict"]).run(result)
    failed = len(result.failures) + len(result.errors)
    print(f"checkers: {result.testsRun - failed} passed, {failed} failed", flush=True)
    return failed


async def planted(chosen: argparse.Namespace, stage: stages.Stage) -> int:
    """Plant each defect and see whether it is caught; return how many were not."""
    await stage.ready()
    places = asyncio.Semaphore(PLANTED_TOGETHER)

    async def one(defect: str) -> bool:
        async with places:
            return await plant(chosen, stage, defect)

    caught = await asyncio.gather(*(one(defect) for defect in chosen.planted))
    print(f"planted defects: {sum(caught)} caught, {len(caught) - sum(caught)} missed", flush=True)
    return len(caught) - sum(caught)


async def plant(chosen: argparse.Namespace, stage: stages.Stage, defect: str) -> bool:
    """Whether a defect is caught with a violation of its kind that names operations."""
    began = time.monotonic()
    for attempt, seconds in enumerate(PLANTED_SECONDS):
        found = await trial.with_defect(chosen, stage, defect, seconds, attempt)
        fitting = [violation for violation in found if violation.kind in DEFECTS[defect] and violation.operations]
        if fitting:
            break
    verdict = "caught" if fitting else "MISSED"
    reported = sorted({violation.kind for violation in found})
    print(f"{verdict} {defect} ({time.monotonic() - began:.1f} s): {', '.join(reported)}", flush=True)
    if fitting and chosen.verbose:
        print("\n".join(f"    {line}" for line in fitting[0].lines()))
    return bool(fitting)


async def run(chosen: argparse.Namespace, stage: stages.Stage) -> int:
    """Run with faults, check, and tell; return 0 if nothing was found."""
    outcome = await trial.with_faults(chosen, stage)
    audit = await asyncio.to_thread(stage.audit)
    if chosen.keep:
        outcome.history.write(stage.folder / "history.jsonl")
    return report.tell(chosen, stage, outcome, audit)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/chaos/run",
        description="Runs replicas over two PostgreSQL clusters that fail in every way, and checks every answer.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    add = parser.add_argument
    add("--seconds", type=float, default=180, help="how long faults go on (%(default)g)")
    add("--seed", type=int, help="of all that is random; another each time unless it is given")
    add("--faults", metavar="A,B", help="only these, or `important` or `none`; all by default")
    add("--once", action="store_true", help="each fault once, however long it takes, instead of --seconds")
    add("--small", action="store_true",
        help="what `make test-all` runs: --unit, --planted all, and each important fault once")
    add("--unit", action="store_true", help="only the tests of the checkers themselves")
    add("--planted", metavar="A,B", help="only plant these defects, or `all`, and see whether they are caught")
    add("--through-proxy", dest="route", action="store_const", const=stages.PROXY, default=stages.PROXY,
        help="each replica has one address, which is led to the new primary after a promotion (default)")
    add("--several-hosts", dest="route", action="store_const", const=stages.HOSTS,
        help="each replica knows both clusters and finds the primary by itself")
    add("--lease", type=float, metavar="SECONDS", help="run the replicas with --primary-lease")
    add("--replicas", type=int, default=3)
    add("--clients", type=int, default=16, help="clients of the Placement API (%(default)s)")
    add("--rate", type=float, default=200, help="operations a second, about (%(default)g)")
    add("--hosts", type=int, default=12)
    add("--consumers", type=int, default=80)
    add("--quiet", type=float, default=4, help="seconds between two faults (%(default)g)")
    defaults = verdict.Parameters()
    add("--after", type=float, default=defaults.after,
        help="seconds after a fault in which 503 may be answered (%(default)g)")
    add("--bound", type=float, default=defaults.bound,
        help="seconds in which a replica must be back (%(default)g)")
    add("--deposed", type=float, default=defaults.deposed,
        help="seconds for which a deposed primary may be believed once the new one can be reached (%(default)g)")
    add("--report", type=pathlib.Path, metavar="FILE", help="write the report as JSON, too")
    add("--keep", action="store_true", help="keep logs of all processes and the history")
    add("--verbose", action="store_true", help="say each fault as it is over, and show what is caught")
    chosen = parser.parse_args()
    known = list(Faults(None, random.Random(), 0).all)
    important = [name for names in IMPORTANT.values() for name in names]
    chosen.faults = named(parser, chosen.faults, known, {"none": [], "important": important, None: known})
    chosen.planted = named(parser, chosen.planted, list(DEFECTS), {"all": list(DEFECTS), None: []})
    return chosen


def named(parser: argparse.ArgumentParser, text: str | None, known: list[str], groups: dict) -> list[str]:
    """The names in a list with commas, or those of a group."""
    chosen = groups[text] if text in groups else text.split(",")
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        parser.error(f"not known: {', '.join(unknown)}; there are {', '.join(known)}")
    return chosen
