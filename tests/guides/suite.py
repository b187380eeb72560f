"""Runs the commands of docs/tutorial.md and docs/guides, and compares their output with that of the page.

Each page has a server of its own. Commands stand in blocks of ```console: a line with `$ ` begins a command, `> ` and open
quotes continue it, and the lines below are its output. White space in it does not count, and `...` stands for anything.
"""

import argparse
import pathlib
import re
import subprocess
import sys

from harness import report
from harness.environment import REPOSITORY
from harness.ports import free_port
from harness.postgres import Cluster
from harness.servers import find_berth, running

PAGES = [REPOSITORY / "docs" / "tutorial.md", *sorted((REPOSITORY / "docs" / "guides").glob("*.md"))]
PLACEMENT, PLANNER = "127.0.0.1:8778", "127.0.0.1:8090"
PATIENCE = 120


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="only these pages, such as bandwidth")
    options = parser.parse_args()
    passed = failed = 0
    with Cluster() as cluster:
        for page in PAGES:
            if options.pages and page.stem not in options.pages:
                continue
            faults = follow(cluster, page)
            print(f"{'FAILED' if faults else 'ok'} {page.relative_to(REPOSITORY)}", flush=True)
            print("\n".join(faults), end="\n" if faults else "", flush=True)
            passed, failed = passed + (not faults), failed + bool(faults)
    return report.finish(passed, failed, 0)


def follow(cluster: Cluster, page: pathlib.Path) -> list[str]:
    """Runs the commands of a page. Returns where the output differs."""
    name = "guide_" + re.sub(r"\W", "_", page.stem)
    cluster.create(name)
    berth, url, planner = find_berth(), cluster.url(name), f"127.0.0.1:{free_port()}"
    subprocess.run([berth, "db", "migrate", "--database-url", url], check=True, capture_output=True)
    command = [berth, "serve", "--database-url", url, "--planner-listen", planner]
    listen = lambda port: ["--listen", f"127.0.0.1:{port}"]  # noqa: E731
    with running(name, command, listen, ready="/readyz") as server:
        steps = list(commands(page.read_text()))
        here = lambda text: text.replace(PLACEMENT, server.url.split("//")[1]).replace(PLANNER, planner)  # noqa: E731
        outputs = run([here(step) for step, _ in steps], pathlib.Path(berth).parent)
        compared = zip(steps, outputs, strict=True)
        return [f"$ {step}\nexpected:\n{expected}\ngot:\n{got}" for (step, expected), got in compared
                if not matches(here(expected), got)]  # fmt: skip


def commands(text: str):
    """The commands of a page, each with its output."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        command, output = None, []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command is not None:
                    yield command, "\n".join(output)
                command, output = line[2:], []
            elif line.startswith("> ") and not output:
                command += "\n" + line[2:]
            elif not output and is_open(command):
                command += "\n" + line
            else:
                output.append(line)
        if command is not None:
            yield command, "\n".join(output)


def is_open(command: str) -> bool:
    """Whether a command continues on the next line."""
    checked = subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True)
    return checked.returncode != 0 or command.endswith("\\")


def run(steps: list[str], folder: pathlib.Path) -> list[str]:
    """Runs commands in one shell. Returns the output of each."""
    script = ["shopt -s expand_aliases", f"PATH={folder}:$PATH"]
    for step in steps:
        script += [step, "printf '\\036'"]
    shell = subprocess.run(["bash"], input="\n".join(script) + "\n", text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=PATIENCE)  # fmt: skip
    return shell.stdout.split("\036")[:-1]


def matches(expected: str, got: str) -> bool:
    plain = lambda text: re.sub(r"\s+", "", text)  # noqa: E731
    pattern = ".*".join(re.escape(plain(part)) for part in expected.split("..."))
    return re.fullmatch(pattern, plain(got), re.DOTALL) is not None


if __name__ == "__main__":
    sys.exit(main())
