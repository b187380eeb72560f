"""Real clients, unmodified, against a running server.

Run it by `tests/clients/run`, which prepares the Python environment first.
"""

import argparse
import signal
import sys
import time
import unittest

import openstacksdk_proxy
import osc_placement_suite
from harness import report, servers

SUITES = {
    "osc-placement": osc_placement_suite,
    "openstacksdk": openstacksdk_proxy,
}


class Result(unittest.TestResult):
    """Prints what fails as it fails, and counts."""

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._tell(test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._tell(test, self.errors[-1][1])

    @staticmethod
    def _tell(test, text: str) -> None:
        # The clients log everything they do; what they say of a failure is enough.
        told = [line for line in text.splitlines() if "DEBUG [" not in line]
        lines = [f"FAIL  {test.id()}", *(f"      {line}" for line in told)]
        print("\n".join(lines), file=sys.__stdout__, flush=True)


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
        tests = [test for test in flat(SUITES[name].tests(server.url)) if not only or only in test.id()]
        result = Result()
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


def flat(suite):
    """The tests of a suite of suites."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


if __name__ == "__main__":
    sys.exit(main())
