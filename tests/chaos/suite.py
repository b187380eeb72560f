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

# What a run of less than a minute does.
IMPORTANT = [
    "replica-kill", "replica-restart", "replica-freeze", "database-kill", "database-restart",
    "switch-over", "failover-kill", "cut", "cut-after-commit", "standby-kill",
]  # fmt: skip
# More patient than a run by hand: the machine that builds has other things to do.
SMALL = {"faults": IMPORTANT, "seconds": 40, "quiet": 2, "after": 5}
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
    if chosen.unit:
        return 1 if failed else 0
    with stages.temporary_folder(chosen.keep) as folder:
        small_disks = "disk-full" in chosen.faults and not chosen.planted
        stage = stages.Stage(folder, chosen.route, chosen.replicas, small_disks)
        try:
            stage.start()
            if not chosen.planted:
                failed += asyncio.run(run(chosen, stage))
            # Last, because it leaves contradictions behind.
            if chosen.planted or chosen.small:
                failed += asyncio.run(planted(chosen, stage))
        finally:
            stage.stop()
            if chosen.keep:
                print(f"All files are in {folder}")
    return 1 if failed else 0


def unit_tests() -> int:
    """The tests of the checkers themselves; return how many failed."""
    import test_checkers

    result = cases.Result()
    unittest.defaultTestLoader.loadTestsFromModule(test_checkers).run(result)
    failed = len(result.failures) + len(result.errors)
    print(f"checkers: {result.testsRun - failed} passed, {failed} failed", flush=True)
    return failed


async def planted(chosen: argparse.Namespace, stage: stages.Stage) -> int:
    """Plant each defect and see whether it is caught; return how many were not."""
    await stage.ready()
    missed = 0
    for defect in chosen.planted or DEFECTS:
        began = time.monotonic()
        caught, found = False, []
        for attempt, seconds in enumerate(PLANTED_SECONDS):
            found = await trial.with_defect(chosen, stage, defect, seconds, attempt)
            caught = any(violation.kind in DEFECTS[defect] and violation.operations for violation in found)
            if caught:
                break
        missed += not caught
        verdict_ = "caught" if caught else "MISSED"
        reported = sorted({violation.kind for violation in found})
        print(f"{verdict_} {defect} ({time.monotonic() - began:.1f} s): {', '.join(reported)}", flush=True)
        if caught and chosen.verbose:
            example = next(violation for violation in found if violation.kind in DEFECTS[defect])
            print("\n".join(f"    {line}" for line in example.lines()))
    print(f"planted defects: {len(chosen.planted or DEFECTS) - missed} caught, {missed} missed", flush=True)
    return missed


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
    add("--small", action="store_true",
        help=f"what `make test` runs: --unit, all of --planted, and {SMALL['seconds']} s of important faults")
    add("--unit", action="store_true", help="only the tests of the checkers themselves")
    add("--planted", metavar="A,B", help="only plant these defects, or `all`, and see whether they are caught")
    add("--through-proxy", dest="route", action="store_const", const=stages.PROXY, default=stages.PROXY,
        help="each replica has one address, which is led to the new primary after a promotion (default)")
    add("--several-hosts", dest="route", action="store_const", const=stages.HOSTS,
        help="each replica knows both clusters and finds the primary by itself")
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
    chosen.faults = named(parser, chosen.faults, known, {"none": [], "important": IMPORTANT, None: known})
    chosen.planted = named(parser, chosen.planted, list(DEFECTS), {"all": list(DEFECTS), None: []})
    return chosen


def named(parser: argparse.ArgumentParser, text: str | None, known: list[str], groups: dict) -> list[str]:
    """The names in a list with commas, or those of a group."""
    chosen = groups[text] if text in groups else text.split(",")
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        parser.error(f"not known: {', '.join(unknown)}; there are {', '.join(known)}")
    return chosen
