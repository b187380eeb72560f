"""The reference's functional suite over real HTTP, each file on a fresh server.

Run it by `tests/conformance/run`, which prepares the Python environment first.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import placement
import yaml

import gabbi_fixtures
from harness import report, servers

HERE = pathlib.Path(__file__).resolve().parent
GABBITS = pathlib.Path(placement.__file__).parent / "tests" / "functional" / "gabbits"
FILE_WITHIN_SECONDS = 300


@dataclasses.dataclass
class Outcome:
    """What came of one file: counts, and the lines to print about it."""

    passed: int = 0
    failed: int = 0
    lines: list[str] = dataclasses.field(default_factory=list)


def main() -> int:
    chosen = arguments()
    # A `kill` must leave neither servers nor a cluster behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        files = chosen_files(chosen.files)
    except ValueError as error:
        sys.exit(str(error))
    total = Outcome()
    with servers.SOURCES[chosen.against]() as source:
        with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
            runs = [pool.submit(run_file, source, file) for file in files]
            try:
                for run in concurrent.futures.as_completed(runs):
                    outcome = run.result()
                    total.passed += outcome.passed
                    total.failed += outcome.failed
                    print("\n".join(outcome.lines), flush=True)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    return report.finish(total.passed, total.failed, 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/conformance/run",
        description="Runs the functional suite of openstack-placement against Berth.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE",
        help="gabbi files to run, as `allocations` or `allocations.yaml`; all by default",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="files run at the same time (2)"
    )
    parser.add_argument(
        "--against", choices=sorted(servers.SOURCES), default="berth",
        help="`reference` proves this suite against the original on SQLite",
    )  # fmt: skip
    return parser.parse_args()


def chosen_files(names: list[str]) -> list[pathlib.Path]:
    """The gabbi files called `names`, or all of them, the longest first."""
    everything = {file.stem: file for file in GABBITS.glob("*.yaml")}
    if not everything:
        raise ValueError(f"There are no gabbi files in {GABBITS}.")
    wanted = [name.removesuffix(".yaml") for name in names] or list(everything)
    unknown = sorted(set(wanted) - set(everything))
    if unknown:
        raise ValueError(f"No such file in {GABBITS}: {', '.join(unknown)}")
    return sorted((everything[n] for n in set(wanted)), key=lambda f: -f.stat().st_size)


def run_file(source, file: pathlib.Path) -> Outcome:
    """Run one file on a server of its own and judge it."""
    began = time.monotonic()
    content = yaml.safe_load(file.read_text())
    needs = frozenset().union(*(getattr(gabbi_fixtures, n).needs for n in content["fixtures"]))
    tests = len(content["tests"])
    try:
        with source.start(file.stem, needs) as server:
            result = run_tests(file, server)
            if not server.is_running():
                result["broken"].append("the server stopped")
            tail = server.tail()
    except Exception as error:
        lines = [f"FAIL  {file.name}: could not be run", indented(str(error))]
        return Outcome(failed=tests, lines=lines)
    took = f"{time.monotonic() - began:.1f} s"
    outcome = judge(file.name, tests, result, took)
    if outcome.failed:
        outcome.lines.append(tail)
    else:
        server.forget_log()
    return outcome


def run_tests(file: pathlib.Path, server: servers.Server) -> dict:
    """Run one_file.py and return its result."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.json"
        done = subprocess.run(
            [sys.executable, HERE / "one_file.py", file, server.url, output],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=FILE_WITHIN_SECONDS, env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip
        if done.returncode != 0 or not output.is_file():
            raise RuntimeError(f"one_file.py failed:\n{done.stdout}")
        return json.loads(output.read_text())


def judge(name: str, tests: int, result: dict, took: str) -> Outcome:
    """Say what came of a file's tests."""
    failures, broken = result["failures"], result["broken"]
    if result["passed"] + len(failures) != tests:
        broken = [*broken, f"{tests} tests in the file, {result['passed']} passed"]
    if not failures and not broken:
        return Outcome(passed=tests, lines=[f"ok    {name} ({tests} tests, {took})"])
    lines = [f"FAIL  {name}: {len(failures)} of {tests} tests"]
    lines += [f"  broken: {text}" for text in broken]
    for failure in failures:
        lines += [f"  {failure['test']}", indented(failure["text"])]
    return Outcome(result["passed"], max(1, len(failures)), lines)


def indented(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
