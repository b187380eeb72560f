"""The API document: whether it is valid, complete and true, and of use for clients.

Run it by `tests/openapi/run`, which prepares the Python environment first.
"""

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import clients
import reference
from harness import report
from harness.environment import REPOSITORY, TARGET
from harness.ports import free_port
from harness.postgres import Cluster
from harness.servers import find_berth, running
from openapi_spec_validator import validate

FOLDER = TARGET / "openapi"
# A stream of events does not end.
ENDLESS = "/-/v1/events"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=40, help="requests for each operation in the fuzzing phase")
    parser.add_argument("tests", nargs="*", help="only these: valid reference fuzz_placement fuzz_planner "
                        "fuzz_operator python rust")  # fmt: skip
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    with served() as (url, planner_url):
        document = FOLDER / "openapi.json"
        with urllib.request.urlopen(f"{url}/openapi.json") as response:
            document.write_bytes(response.read())
        content = json.loads(document.read_text())
        tests = {
            "valid": lambda: validate(content),
            "reference": lambda: reference.compare(content),
            "fuzz_placement": lambda: fuzz(document, url, "Placement", options.examples),
            "fuzz_planner": lambda: fuzz(document, planner_url, "Planner", options.examples),
            "fuzz_operator": lambda: fuzz(document, url, "Operator", options.examples),
            "python": lambda: clients.python(FOLDER, document, url, planner_url),
            "rust": lambda: clients.rust(FOLDER, document, url, planner_url),
        }
        for name in options.tests or tests:
            try:
                tests[name]()
            except Exception as error:  # noqa: BLE001
                print(f"FAILED {name}: {error}", flush=True)
                failed += 1
            else:
                print(f"ok {name}", flush=True)
                passed += 1
    return report.finish(passed, failed, 0)


@contextlib.contextmanager
def served():
    """A server over an empty database. Gives the addresses of the Placement API and of the planner."""
    with Cluster() as cluster:
        cluster.create("openapi")
        url = cluster.url("openapi")
        berth = find_berth()
        subprocess.run([berth, "db", "migrate", "--database-url", url], check=True, capture_output=True)
        planner = f"127.0.0.1:{free_port()}"
        command = [berth, "serve", "--database-url", url, "--planner-listen", planner, "--events", "24"]
        listen = lambda port: ["--listen", f"127.0.0.1:{port}"]  # noqa: E731
        with running("openapi", command, listen, ready="/readyz") as server:
            yield server.url, f"http://{planner}"


def fuzz(document: pathlib.Path, url: str, tag: str, examples: int) -> None:
    """Sends requests that the document describes, and such that it forbids, and compares the responses with it."""
    log = FOLDER / f"schemathesis-{tag}.log"
    command = [
        "schemathesis", "run", str(document), "--url", url, "--header", "X-Auth-Token:admin",
        "--include-tag", tag, "--exclude-path", ENDLESS, "--checks", CHECKS, "--phases", "examples,coverage,fuzzing",
        "--max-examples", str(examples), "--continue-on-failure", "--seed", "1", "--warnings", "off",
        "--suppress-health-check", "all",
    ]  # fmt: skip
    with open(log, "w") as output:
        ended = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=FOLDER, env=os.environ | {"COLUMNS": "160"})
    if ended.returncode:
        raise AssertionError(f"schemathesis: {log}\n" + "\n".join(log.read_text().splitlines()[-120:]))


if __name__ == "__main__":
    sys.exit(main())
