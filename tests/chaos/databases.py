"""Two PostgreSQL clusters, one the synchronous standby of the other, that change places.

All of it blocks; the harness calls it from threads of its own.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import time

from harness.ports import free_port
from harness.postgres import SUPERUSER, _become, _unprivileged, find_programs
from programs import Program, clean_environment

DATABASE = "berth"
UP_WITHIN_SECONDS = 120
START_ATTEMPTS = 20

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "120",
    "shared_buffers": "32MB",
    "wal_level": "replica",
    "max_wal_senders": "10",
    "hot_standby": "on",
    # For pg_rewind.
    "wal_log_hints": "on",
    "wal_keep_size": "96MB",
    "min_wal_size": "8MB",
    "max_wal_size": "96MB",
    "synchronous_commit": "on",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "200ms",
    # Processes are killed here and the machine is not: what the kernel has is not lost.
    "fsync": "off",
    "log_line_prefix": "%m [%p] %a ",
}


class Unavailable(Exception):
    """A database did not answer a statement, or not in time."""


class Node:
    """One PostgreSQL cluster: its folder, its port and its postmaster."""

    def __init__(self, name: str, folder: pathlib.Path, logs: pathlib.Path) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self._bin = pathlib.Path(find_programs()["initdb"]).parent
        self._psql = find_programs()["psql"]
        self._user = _unprivileged()
        self._environment = clean_environment()
        folder.mkdir(parents=True, exist_ok=True)
        if self._user:
            shutil.chown(folder, self._user)
        os.chmod(folder, 0o755)
        command = [self._bin / "postgres", "-D", self.data, "-p", self.port, "-k", folder]
        log = logs / f"postgresql-{name}.log"
        self.program = Program(f"PostgreSQL {name}", self._as_user(command), log, self._environment)

    @property
    def data(self) -> pathlib.Path:
        return self.folder / "data"

    @property
    def log(self) -> pathlib.Path:
        return self.program.log

    def initialize(self, synchronous: bool) -> None:
        """Make a new cluster with an empty database."""
        self._run(
            "initdb", "-D", self.data, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8",
            "--locale=C", "--no-sync", "--wal-segsize=1",
        )  # fmt: skip
        self._write_settings()
        self.start()
        self.sql(f"create database {DATABASE}", database="postgres")
        if synchronous:
            # Not yet: without a standby no commit would end.
            self.require_standby(False)

    def copy_from(self, primary: "Node") -> None:
        """Become a standby of `primary`, as a new copy of it."""
        self.program.kill()
        self._remove_data()
        self._run(
            "pg_basebackup", "-h", "127.0.0.1", "-p", primary.port, "-U", SUPERUSER, "-D", self.data,
            "-X", "stream", "-c", "fast", "--no-sync",
        )  # fmt: skip
        self._follow(primary)

    def rewind_to(self, primary: "Node") -> bool:
        """Become a standby of `primary`, which was promoted, by pg_rewind; whether it could."""
        self.program.kill()
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        # What is rewound must not wait for a standby while it recovers.
        with open(self.data / "postgresql.auto.conf", "a") as settings:
            settings.write("synchronous_standby_names = ''\n")
        # Until its first checkpoint on the new timeline, a promoted server says that it is on the old.
        primary.sql("checkpoint", database="postgres")
        source = f"host=127.0.0.1 port={primary.port} user={SUPERUSER} dbname=postgres"
        done = self._run(
            "pg_rewind", "-D", self.data, f"--source-server={source}", "--no-sync", check=False
        )
        if done.returncode != 0:
            return False
        try:
            self._follow(primary)
        except RuntimeError:
            # Not every cluster can be rewound; then it has to be copied.
            return False
        return True

    def follow(self, primary: "Node") -> None:
        """Become a standby of `primary` after having been stopped in good order before it rose."""
        self._follow(primary)

    def _follow(self, primary: "Node") -> None:
        self._write_settings()
        with open(self.data / "postgresql.auto.conf", "a") as settings:
            settings.write(
                f"primary_conninfo = 'host=127.0.0.1 port={primary.port} user={SUPERUSER} "
                f"application_name={self.name}'\n"
                "recovery_target_timeline = 'latest'\nsynchronous_standby_names = ''\n"
            )
        (self.data / "standby.signal").touch()
        self._chown()
        self.start()

    def start(self, wait: bool = True) -> None:
        """Start the postmaster; with `wait`, until it answers statements."""
        deadline = time.monotonic() + UP_WITHIN_SECONDS
        attempts = START_ATTEMPTS
        while True:
            self.program.start()
            while self.program.is_running():
                if not wait or self.answers():
                    return
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} is not up in time\n{self.program.tail()}")
                time.sleep(0.02)
            # After kill -9 the old shared memory may be in use for another moment.
            attempts -= 1
            if attempts == 0:
                raise RuntimeError(f"{self.name} does not start\n{self.program.tail()}")
            time.sleep(0.2)

    def stop(self, mode: str = "fast") -> None:
        """Stop the postmaster in good order (`fast`) or without (`immediate`)."""
        self.program.signal({"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
        if not self.program.wait(60):
            self.program.kill()

    def freeze(self) -> None:
        """Stop all of its processes where they are."""
        self.program.signal(signal.SIGSTOP)
        self.program.signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self.program.signal_all(signal.SIGCONT)

    def answers(self) -> bool:
        try:
            self.sql("select 1", database="postgres", seconds=5)
        except Unavailable:
            return False
        return True

    def is_primary(self) -> bool:
        try:
            return self.sql("select pg_is_in_recovery()", database="postgres", seconds=5) == "f"
        except Unavailable:
            return False

    def promote(self) -> None:
        """Make a standby the primary; returns when it takes writes."""
        self.sql("select pg_promote(true, 60)", database="postgres", seconds=90)
        deadline = time.monotonic() + UP_WITHIN_SECONDS
        while not self.is_primary():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} was not promoted\n{self.program.tail()}")
            time.sleep(0.02)

    def require_standby(self, required: bool) -> None:
        """Whether a commit waits until a standby has it."""
        names = "*" if required else ""
        self.sql(f"alter system set synchronous_standby_names = '{names}'", database="postgres")
        self.sql("select pg_reload_conf()", database="postgres")

    def has_synchronous_standby(self) -> bool:
        try:
            query = "select count(*) from pg_stat_replication where sync_state = 'sync'"
            return self.sql(query, database="postgres", seconds=5) == "1"
        except Unavailable:
            return False

    def sql(self, text: str, database: str = DATABASE, seconds: float = 30) -> str:
        """Run statements as the superuser; return what they answer, a line a row.

        Raises Unavailable if the database refuses, or has not answered after `seconds`.
        """
        command = [
            self._psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.folder,
            "-p", self.port, "-U", SUPERUSER, database,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                [str(part) for part in command], input=text, timeout=seconds, text=True,
                capture_output=True, env={**self._environment, "PGCONNECT_TIMEOUT": "5"},
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise Unavailable(f"{self.name} did not answer in {seconds} s") from late
        if done.returncode != 0:
            raise Unavailable(done.stderr.strip())
        return done.stdout.strip()

    def session(self) -> subprocess.Popen:
        """A psql that stays connected and takes statements on its standard input."""
        return subprocess.Popen(
            [self._psql, "-X", "-q", "-h", str(self.folder), "-p", str(self.port), "-U", SUPERUSER, DATABASE],
            env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def _write_settings(self) -> None:
        lines = [f"{name} = '{value}'\n" for name, value in SETTINGS.items()]
        (self.data / "postgresql.conf").write_text("".join(lines))
        self._chown()

    def _chown(self) -> None:
        if self._user:
            for name in ("postgresql.conf", "postgresql.auto.conf", "standby.signal"):
                if (self.data / name).exists():
                    shutil.chown(self.data / name, self._user)

    def _remove_data(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)

    def _run(self, program: str, *arguments, check: bool = True) -> subprocess.CompletedProcess:
        command = self._as_user([self._bin / program, *arguments])
        done = subprocess.run(
            [str(part) for part in command], cwd=self.folder, env=self._environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        with open(self.log, "a") as log:
            log.write(f"--- {program}\n{done.stdout}")
        if check and done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stdout}")
        return done

    def _as_user(self, command: list) -> list:
        return [*_become(self._user), *command] if self._user else command


class Pair:
    """The two clusters, and which of them is the primary."""

    def __init__(self, folders: list[pathlib.Path], logs: pathlib.Path) -> None:
        self.nodes = [Node(name, folder, logs) for name, folder in zip("ab", folders)]
        self.primary, self.standby = self.nodes

    def start(self) -> None:
        """Make both; returns when a commit waits for the standby."""
        self.primary.initialize(synchronous=True)
        self.standby.copy_from(self.primary)
        self.settle()

    def settle(self) -> None:
        """Wait until the standby streams, and require it from then on."""
        self.wait_for_standby(required=False)
        self.primary.require_standby(True)
        self.wait_for_standby(required=True)

    def wait_for_standby(self, required: bool) -> None:
        query = "select count(*) from pg_stat_replication where state = 'streaming'"
        deadline = time.monotonic() + UP_WITHIN_SECONDS
        while time.monotonic() < deadline:
            try:
                if required and self.primary.has_synchronous_standby():
                    return
                if not required and self.primary.sql(query, database="postgres") == "1":
                    return
            except Unavailable:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"no standby streams\n{self.standby.program.tail()}")

    def promote(self) -> None:
        """Make the standby the primary, whatever has become of the old one.

        The new one requires no standby until it has one again (`rebuild`).
        """
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def rebuild(self, rewind: bool) -> None:
        """Make the old primary the standby of the new one, and require it."""
        if not (rewind and self.standby.rewind_to(self.primary)):
            self.standby.copy_from(self.primary)
        self.settle()

    def stop(self) -> None:
        for node in self.nodes:
            node.program.kill()
