"""Processes of a run: started in a folder, signalled with all their children, ended at the end."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import psutil
from harness.postgres import find_programs

PROGRAMS = pathlib.Path(find_programs()["initdb"]).parent


def unprivileged() -> str | None:
    """The user to run PostgreSQL as, which refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def folder_of(path: pathlib.Path) -> pathlib.Path:
    """Make a folder for the user that PostgreSQL runs as."""
    path.mkdir(parents=True, exist_ok=True)
    if user := unprivileged():
        shutil.chown(path, user)
    path.chmod(0o700)
    return path


def command(*parts) -> list[str]:
    """The command line that runs these parts as the unprivileged user."""
    words = [str(part) for part in parts]
    if user := unprivileged():
        group = str(pwd.getpwnam(user).pw_gid)
        words = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", *words]
    return words


def ran(*parts, check: bool = True) -> None:
    """Run a command as the unprivileged user, to its end; end this program if it fails."""
    # Into a file: a server that the command starts would keep a pipe open.
    with tempfile.TemporaryFile("w+") as out:
        done = subprocess.run(
            command(*parts), cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        if check and done.returncode != 0:
            out.seek(0)
            sys.exit(f"{' '.join(str(part) for part in parts)}:\n{out.read()}")


def needed(program: str, package: str) -> str:
    """Where a program is, which a package of Debian brings."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return found or sys.exit(f"{program} is missing: on Debian, `apt-get install {package}`")


def wait_until(what: str, holds, seconds: float = 120) -> None:
    """Wait until `holds()` is true; what it raises counts as false."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except Exception as error:  # noqa: BLE001
            why = error
        else:
            why = "no"
        time.sleep(0.1)
    raise TimeoutError(f"not within {seconds:.0f} s: {what} ({why})")


class Process:
    """A process with its log."""

    def __init__(self, name: str, words: list, log: pathlib.Path, env: dict | None = None) -> None:
        self.name = name
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [str(word) for word in words], cwd="/", env=env, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self, within: float = 60) -> None:
        """End it as an operator would, and wait for it."""
        if self.is_running():
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(within)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        if self.is_running():
            self._process.kill()
        self._process.wait()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)


def family(pid: int) -> list[psutil.Process]:
    """A process and all that descend from it; none if it is gone."""
    try:
        eldest = psutil.Process(pid)
        return [eldest, *eldest.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def signal_all(pids: list[int], number: int) -> None:
    """Signal these processes with all their children, the parents first."""
    for pid in pids:
        for process in family(pid):
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                pass
