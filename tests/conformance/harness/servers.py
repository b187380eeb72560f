"""Starting and stopping the server a suite runs against.

A source of servers (Berth or Reference) is a context manager; its
`start(name, needs)` gives a fresh server with an empty database of its own.
`needs` are the configurations a fixture asks for (see gabbi_fixtures.py); a source
takes those it knows and ignores the rest.
"""

import contextlib
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from harness.environment import CONFORMANCE, REPOSITORY, TARGET, WORK
from harness.ports import free_port
from harness.postgres import Cluster
from harness.reference import open_policy

READY_WITHIN_SECONDS = 300
STOP_WITHIN_SECONDS = 60
TAIL_LINES = 40
TEMPLATE = "berth_template"


class Server:
    """One running server: its URL, its process and its log."""

    def __init__(self, url: str, process: subprocess.Popen, log: pathlib.Path) -> None:
        self.url = url
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> pathlib.Path:
        """The file it writes its log to."""
        return self._log

    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask the process to stop; kill it if it does not within a bound."""
        if self.is_running():
            self._process.terminate()
            try:
                self._process.wait(STOP_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def tail(self) -> str:
        """The last lines of the log, and where all of it is."""
        lines = self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"--- end of {self._log}", *lines, "---"])

    def forget_log(self) -> None:
        self._log.unlink(missing_ok=True)


class Berth:
    """Berth over one throwaway PostgreSQL, a database for each server."""

    def __init__(self) -> None:
        self._program = find_berth()
        self._cluster = Cluster()

    def __enter__(self) -> "Berth":
        self._cluster.__enter__()
        try:
            self._cluster.create(TEMPLATE)
            self._migrate()
        except BaseException:
            self._cluster.__exit__()
            raise
        return self

    def __exit__(self, *exception) -> None:
        self._cluster.__exit__(*exception)

    @contextlib.contextmanager
    def start(self, name: str, needs: frozenset[str] = frozenset()):
        """A server over an empty database called `name`; stopped at the end."""
        # The suite holds the rules before the present defaults, but for the files that say so.
        new_defaults = str("secure-rbac" in needs).lower()
        options = ["--auth", "noauth2", "--enforce-new-defaults", new_defaults]
        if "cors" in needs:
            options += ["--cors-allowed-origin", "http://valid.example.com"]
        with tempfile.TemporaryDirectory() as folder:
            if "open-policy" in needs:
                policy = pathlib.Path(folder) / "policy.yaml"
                policy.write_text(open_policy())
                options += ["--policy-file", policy]
            with self.serve(name, options) as server:
                yield server

    @contextlib.contextmanager
    def serve(self, name: str, options: list, scheme: str = "http"):
        """The same, with these options of `berth serve`."""
        self._cluster.create(name, TEMPLATE)
        try:
            command = [self._program, "serve", *options]
            if "--planner-listen" not in options:
                # Several run at once.
                command += ["--planner-listen", "none"]
            command += ["--database-url", self._cluster.url(name)]
            listen = lambda port: ["--listen", f"127.0.0.1:{port}"]  # noqa: E731
            with running(name, command, listen, scheme=scheme) as server:
                yield server
        finally:
            self._cluster.drop(name)

    def _migrate(self) -> None:
        command = [self._program, "db", "migrate", "--database-url", self._cluster.url(TEMPLATE)]
        done = subprocess.run(command, capture_output=True, text=True, env=_environment())
        if done.returncode != 0:
            sys.exit(f"`berth db migrate` failed:\n{done.stdout}{done.stderr}")


class Reference:
    """The reference itself, to prove that the suites are right: on SQLite, or another database."""

    def __init__(self, connection: str | None = None, python: str | pathlib.Path = sys.executable) -> None:
        """`python` has the release that is to be served, if not the suite's."""
        self._connection = connection
        self._python = python

    def __enter__(self) -> "Reference":
        return self

    def __exit__(self, *_exception) -> None:
        pass

    @contextlib.contextmanager
    def start(self, name: str, needs: frozenset[str] = frozenset()):
        """A server over an empty database; stopped at the end."""
        folder = tempfile.mkdtemp(prefix="placement-")
        try:
            command = [self._python, CONFORMANCE / "harness" / "reference.py"]
            command += ["--directory", folder, "--needs", ",".join(sorted(needs))]
            if self._connection:
                command += ["--connection", self._connection]
            with running(name, command, lambda port: ["--port", port]) as server:
                yield server
        finally:
            shutil.rmtree(folder, ignore_errors=True)


SOURCES = {"berth": Berth, "reference": Reference}


def find_berth() -> pathlib.Path:
    """The program to test: $BERTH_BIN, else what cargo built last."""
    chosen = os.environ.get("BERTH_BIN")
    if chosen:
        return pathlib.Path(chosen).resolve()
    built = [TARGET / profile / "berth" for profile in ("release", "quick", "debug")]
    built = [program for program in built if program.is_file()]
    if not built:
        sys.exit(f"There is no berth to test in {TARGET}: run `cargo build` first, or set BERTH_BIN.")
    return max(built, key=lambda program: program.stat().st_mtime)


@contextlib.contextmanager
def running(name: str, command: list, listen, ready: str = "/", scheme: str = "http"):
    """Run `command` with the options `listen(port)` until the block ends.

    It is up when it answers `GET` of the path `ready`, which must need no identity, with 200.
    """
    logs = WORK / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{name}.log"
    port = free_port()
    with open(log, "w") as out:
        process = subprocess.Popen(
            [str(part) for part in [*command, *listen(port)]],
            cwd=REPOSITORY, env=_environment(),
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    server = Server(f"{scheme}://127.0.0.1:{port}", process, log)
    try:
        _wait_until_ready(server, ready)
        yield server
    finally:
        server.stop()


def _environment() -> dict[str, str]:
    """The environment without settings of the caller's that would configure a server."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "OS_"))}


def _wait_until_ready(server: Server, path: str) -> None:
    # Whether its certificate is a good one is not the question here.
    unverified = ssl._create_unverified_context()
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if not server.is_running():
            raise RuntimeError(f"The server stopped while starting.\n{server.tail()}")
        try:
            with urllib.request.urlopen(server.url + path, timeout=5, context=unverified) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.02)
    raise RuntimeError(f"The server was not ready in {READY_WITHIN_SECONDS} s.\n{server.tail()}")
