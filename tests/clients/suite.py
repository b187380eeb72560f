"""Real clients, unmodified, against a running server.

Run it by `tests/clients/run`, which prepares the Python environment first.
"""

import argparse
import signal
import sys
import time
import unittest

import openstacksdk_proxy
import openstacksdk_suite
import osc_placement_suite
from harness import cases, report, servers

SUITES = {
    "osc-placement": osc_placement_suite,
    "openstacksdk": openstacksdk_proxy,
    "openstacksdk-functional": openstacksdk_suite,
}


def main() -> int:
    chosen = arguments()
    # A `kill` must leave neither servers nor a cluster behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    total = [0, 0, 0]
    with servers.SOURCES[chosen.against]() as source:
        for name in chosen.suites or SUITES:
            counts = run_suite(source, name, chosen.only)
            total = [sum(pair) for pair in zip(total, counts)]
    return report.finish(*total)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/clients/run",
        description="Runs real clients' tests against Berth.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE",
        help=f"suites to run ({', '.join(SUITES)}); all by default",
    )  # fmt: skip
    parser.add_argument("--only", metavar="TEXT", help="only tests with TEXT in their name")
    parser.add_argument(
        "--against", choices=sorted(servers.SOURCES), default="berth",
        help="`reference` proves the suites against the original on SQLite",
    )  # fmt: skip
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.suites) - set(SUITES))
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}")
    return chosen


def run_suite(source, name: str, only: str | None) -> tuple[int, int, int]:
    """Run one suite on a server of its own; return passed, failed, skipped."""
    began = time.monotonic()
    with source.start(name) as server:
        tests = [test for test in cases.flat(SUITES[name].tests(server.url)) if not only or only in test.id()]
        result = cases.Result()
        unittest.TestSuite(tests).run(result)
        crashed = not server.is_running()
        if crashed:
            print(f"FAIL  {name}: the server stopped")
        tail = server.tail()
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses) + crashed
    skipped = len(result.skipped)
    if failed:
        print(tail)
    else:
        server.forget_log()
    verdict = "FAIL " if failed else "ok   "
    print(f"{verdict} {name} ({result.testsRun} tests, {time.monotonic() - began:.1f} s)", flush=True)
    return max(0, result.testsRun - failed - skipped), failed, skipped


if __name__ == "__main__":
    sys.exit(main())
