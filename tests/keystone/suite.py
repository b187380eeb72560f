"""Who may do what, with a real Keystone and everything that can go wrong with one.

Run it by `tests/keystone/run`, which prepares the Python environment first.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

import audit
import authorisation
import clients
import commands
import console
import credentials
import leaks
import outages
import placements
import planner
import tokens
from harness import cases, report
from identity import keystone
from scene import Case, Scene

# In this order; the last looks at what the others left.
PARTS = {
    "authorisation": authorisation,
    "tokens": tokens,
    "outages": outages,
    "credentials": credentials,
    "planner": planner,
    "clients": clients,
    "commands": commands,
    "console": console,
    "audit": audit,
    "leaks": leaks,
}


def main() -> int:
    chosen = arguments()
    # A `kill` must leave neither servers nor a cluster behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Nothing here is anywhere else than on this machine.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    total = [0, 0, 0]
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keystone-")))
        source = stack.enter_context(placements.SOURCES[chosen.against]())
        identity = stack.enter_context(keystone(folder / "keystone"))
        Case.scene = scene = Scene(identity, source, stack, folder)
        for name in chosen.parts or PARTS:
            counts = run_part(name, chosen.only)
            total = [sum(pair) for pair in zip(total, counts)]
        for tail in scene.all_stand():
            print(f"FAIL  a server stopped\n{tail}")
            total[1] += 1
        if not total[1]:
            for log in source.logs:
                log.unlink(missing_ok=True)
    return report.finish(*total)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/keystone/run",
        description="Runs Berth with a real Keystone.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"parts to run ({', '.join(PARTS)}); all by default"
    )
    parser.add_argument("--only", metavar="TEXT", help="only tests with TEXT in their name")
    parser.add_argument(
        "--against", choices=sorted(placements.SOURCES), default="berth",
        help="`reference` proves the suite against the original on SQLite",
    )  # fmt: skip
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.parts) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    return chosen


def run_part(name: str, only: str | None) -> tuple[int, int, int]:
    """Run one part; return passed, failed, skipped."""
    began = time.monotonic()
    loaded = unittest.defaultTestLoader.loadTestsFromModule(PARTS[name])
    tests = [test for test in cases.flat(loaded) if not only or only in test.id()]
    result = cases.Result()
    unittest.TestSuite(tests).run(result)
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"      skipped: {reason}")
    verdict = "FAIL " if failed else "ok   "
    print(f"{verdict} {name} ({result.testsRun} tests, {time.monotonic() - began:.1f} s)", flush=True)
    return max(0, result.testsRun - failed - skipped), failed, skipped


if __name__ == "__main__":
    sys.exit(main())
