"""The journal of a service in the rehearsal: one JSON object a line.

A line is a request (`path`), or an operation that ended (`operation`) with what must be stored from then on
(`consumers`: allocations by consumer; `providers`: inventories and traits by provider, None for one that is
gone), or an operation that failed (`error`).
"""

import json
import pathlib
import random
import signal
import sys
import threading
import time
import traceback
import urllib.parse
import uuid

import requests

NAMESPACE = uuid.UUID("6a2f41a3-c54c-4ce8-92d2-0324e1c32e22")
PROJECT, USER = "1d1f8ab5c8f84bd7a1c1d9d4d4a9f0aa", "9b2f3c0c5a4e4d0f8f7a6b5c4d3e2f10"
# Between two operations of a thread, in seconds.
PAUSE = 0.5
# With this the old service on MariaDB answers 500, and has stored nothing. InnoDB ends one of two transactions that
# wait for each other, and the service does not begin it again; what the clients make of it is not what is tried here.
DEADLOCK = "Deadlock found when trying to get lock"
# With this, and 409, the old service answers a reshape after a deadlock, and has stored nothing either. It begins
# the part that writes allocations again, in a transaction without the inventories that it had written before.
HALF_AGAIN = "Unable to allocate inventory: Inventory for"
# How often a request that ended so is sent again.
DEADLOCKS = 5


def ended_by_deadlock(response: requests.Response) -> bool:
    """Whether the old service refused a request because InnoDB had ended its transaction."""
    # HAProxy adds the header: stage.py.
    if response.headers.get("Answered-By") != "old":
        return False
    reshape = urllib.parse.urlsplit(response.request.url).path == "/reshaper"
    return (
        response.status_code == 500 and DEADLOCK in response.text
        or response.status_code == 409 and reshape and HALF_AGAIN in response.text
    )  # fmt: skip


def provider_uuid(name: str) -> str:
    """The UUID of a provider or an aggregate, which all services know by its name."""
    return str(uuid.uuid5(NAMESPACE, name))


def inventory(total: int, ratio: float = 1.0, reserved: int = 0) -> dict:
    return {
        "total": total, "reserved": reserved, "min_unit": 1, "max_unit": total, "step_size": 1,
        "allocation_ratio": ratio,
    }  # fmt: skip


class Journal:
    """The file in which one service records its requests and operations."""

    def __init__(self, path: pathlib.Path) -> None:
        self._file = open(path, "a", buffering=1)
        self._lock = threading.Lock()

    def write(self, **line) -> None:
        line["at"] = time.time()
        line["thread"] = threading.current_thread().name
        with self._lock:
            self._file.write(json.dumps(line) + "\n")

    def done(self, operation: str, consumers: dict | None = None, providers: dict | None = None) -> None:
        """Record that an operation ended, after which these are stored."""
        self.write(operation=operation, consumers=consumers or {}, providers=providers or {})

    def watch_requests(self, of: str) -> None:
        """Write down each request to a URL that begins so, with its status and its seconds.

        One that a deadlock of the old service has ended is sent again.
        """
        original = requests.Session.send

        def send(session, request, **more):
            response = once(session, request, **more)
            for _ in range(DEADLOCKS):
                if not ended_by_deadlock(response):
                    break
                response = once(session, request, **more)
            return response

        def once(session, request, **more):
            began = time.monotonic()
            status, reason = 0, ""
            try:
                response = original(session, request, **more)
                status = response.status_code
                reason = response.text[:400] if status >= 400 else ""
                return response
            except requests.RequestException as error:
                reason = repr(error)
                raise
            finally:
                if request.url.startswith(of):
                    path = urllib.parse.urlsplit(request.url).path
                    seconds = time.monotonic() - began
                    self.write(path=path, method=request.method, status=status, seconds=seconds, reason=reason)

        requests.Session.send = send


class Service:
    """The threads of one service, which go on until the process gets SIGTERM."""

    def __init__(self) -> None:
        self.settings = json.loads(pathlib.Path(sys.argv[1]).read_text())
        self.journal = Journal(pathlib.Path(self.settings["journal"]))
        self.journal.watch_requests(self.settings["placement"])
        self.random = random.Random(self.settings["seed"])
        self._over = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._over.set())

    def run(self, threads: dict) -> None:
        """Run each thread's step again and again."""
        running = [threading.Thread(target=self._loop, args=(step,), name=name) for name, step in threads.items()]
        for thread in running:
            thread.start()
        # Signals are handled by the main thread, while it does not wait for a lock.
        while not self._over.wait(0.2):
            pass
        for thread in running:
            thread.join()

    def _loop(self, step) -> None:
        while not self._over.is_set():
            try:
                step()
            except Exception:
                self.journal.write(error=traceback.format_exc())
                time.sleep(1)
            time.sleep(PAUSE)
