"""Child processes that are started, killed, frozen and thawed."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time


class Program:
    """A program that runs, or does not: started and ended as often as the faults want."""

    def __init__(self, name: str, command: list, log: pathlib.Path, environment: dict) -> None:
        self.name = name
        self._command = [str(part) for part in command]
        self._log = log
        self._environment = environment
        self._process: subprocess.Popen | None = None

    @property
    def log(self) -> pathlib.Path:
        return self._log

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; its output is appended to its log."""
        if self.is_running():
            raise RuntimeError(f"{self.name} runs already")
        with open(self._log, "a") as out:
            self._process = subprocess.Popen(
                self._command, env=self._environment, cwd=self._log.parent,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def signal(self, number: int) -> None:
        """Send a signal to the process and to nobody else."""
        if self.is_running():
            self._process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """Send a signal to the process and to all that descend from it."""
        if not self.is_running():
            return
        seen: set[int] = set()
        # A frozen parent starts no more children, so this ends.
        while True:
            family = {self._process.pid, *descendants(self._process.pid)} - seen
            if not family:
                return
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            seen |= family

    def kill(self) -> None:
        """End it and all that descend from it with SIGKILL, and wait until it is gone."""
        if self._process is None:
            return
        family = descendants(self._process.pid) if self.is_running() else []
        self.signal(signal.SIGSTOP)
        self.signal_all(signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + 30
        while any(_is_alive(pid) for pid in family) and time.monotonic() < deadline:
            time.sleep(0.01)

    def wait(self, seconds: float) -> bool:
        """Wait until it has ended; return whether it has."""
        if self._process is None:
            return True
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        if not self._log.exists():
            return ""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def _is_alive(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def clean_environment() -> dict[str, str]:
    """The environment without settings of the caller's that would configure what is tested."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "OS_", "PG"))}
    return {**kept, "LC_ALL": "C"}
