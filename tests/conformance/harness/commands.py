"""`berth` as a command, and servers that stand for others."""

import contextlib
import json
import pathlib
import socketserver
import subprocess
import tempfile
import threading
import unittest

from harness.servers import _environment, find_berth, running


def berth(*arguments, stdin: str | None = None, within: float = 600, **environment: str) -> subprocess.CompletedProcess:
    """Run `berth`; `told` is its standard input, if it gets one of its own."""
    command = [str(part) for part in (find_berth(), *arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=_environment() | environment, input=stdin, timeout=within
    )


@contextlib.contextmanager
def serving(name: str, database: str):
    """Berth over a database, without authentication."""
    options = ["--auth", "noauth2", "--enforce-new-defaults", "false"]
    options += ["--planner-listen", "none", "--database-url", database]
    listen = lambda port: ["--listen", f"127.0.0.1:{port}"]  # noqa: E731
    with running(name, [find_berth(), "serve", *options], listen) as server:
        yield server


def imported(case: unittest.TestCase, tries, *arguments) -> tuple[str, dict]:
    """Import by `tries`, which must succeed: what it printed, and its report."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        done = tries(*arguments, "--report", file)
        case.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, json.loads(file.read_text())


@contextlib.contextmanager
def in_thread(server: socketserver.BaseServer):
    """A server of this process, until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
