"""The harness's side of the forwarder: orders to its process."""

import json
import pathlib
import subprocess
import sys
import threading

from programs import clean_environment


class Links:
    """Links between replicas and databases, by name; see forwarder.py for what can be done to them."""

    def __init__(self, log: pathlib.Path) -> None:
        # Orders come from several threads.
        self._lock = threading.Lock()
        with open(log, "a") as out:
            self._process = subprocess.Popen(
                [sys.executable, pathlib.Path(__file__).with_name("forwarder.py")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True,
                env=clean_environment(), start_new_session=True,
            )  # fmt: skip

    def open(self, link: str, target: int) -> int:
        """Open a link to a port; return the port on which it listens."""
        return self._order(do="open", link=link, target=target)["port"]

    def redirect(self, link: str, target: int) -> None:
        self._order(do="redirect", link=link, target=target)

    def cut(self, link: str) -> None:
        self._order(do="cut", link=link)

    def freeze(self, link: str, on: bool) -> None:
        self._order(do="freeze", link=link, on=on)

    def delay(self, link: str, seconds: float) -> None:
        self._order(do="delay", link=link, seconds=seconds)

    def refuse(self, link: str, on: bool) -> None:
        self._order(do="refuse", link=link, on=on)

    def cut_after_commit(self, link: str, count: int) -> None:
        self._order(do="cut-after-commit", link=link, count=count)

    def cut_count(self, link: str) -> int:
        """How many connections were cut after a commit since the order was given."""
        return self._order(do="cut-count", link=link)["cut"]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _order(self, **order) -> dict:
        with self._lock:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the forwarder has ended")
        return json.loads(line)
