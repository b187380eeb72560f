"""Two PostgreSQL with plain streaming replication, promoted by hand."""

import pathlib
import shutil
import signal

from nodes import PASSWORD, Node
from processes import PROGRAMS, ran, signal_all, wait_until

SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
wal_log_hints = on
hot_standby = on
"""
ACCESS = """
local all all trust
host replication replicator 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
"""


class Server(Node):
    """A PostgreSQL that an operator looks after."""

    def make_primary(self) -> None:
        """A new cluster, with the roles and the database."""
        secret = self.folder / "secret"
        secret.write_text("superuser\n")
        shutil.chown(secret, self.folder.owner())
        self._program(
            "initdb", "-D", self.data, "-U", "postgres", "--pwfile", secret,
            "-A", "scram-sha-256", "--encoding=UTF8", "--locale=C",
        )  # fmt: skip
        self.configure()
        self.start()
        with self.connect() as session:
            session.execute("create role replicator login replication password 'replicator'")
            session.execute(f"create role berth login password '{PASSWORD}'")
            session.execute("create database berth owner berth")

    def make_standby_of(self, primary: "Server") -> None:
        """A copy of the primary that follows it, and that it waits for."""
        source = (
            f"host=127.0.0.1 port={primary.port} user=replicator password=replicator "
            f"application_name={self.name}"
        )
        self._program("pg_basebackup", "-D", self.data, "-d", source, "-R", "-c", "fast")
        self.configure()
        self.start()
        with primary.connect() as session:
            # Set on the primary only. A standby that had this setting would, once promoted, wait
            # for a standby of its own before it acknowledges anything.
            session.execute(f"alter system set synchronous_standby_names = '{self.name}'")
            session.execute("select pg_reload_conf()")

    def configure(self) -> None:
        (self.data / "postgresql.conf").write_text(
            SETTINGS.format(port=self.port, folder=self.folder)
        )
        (self.data / "pg_hba.conf").write_text(ACCESS)

    def start(self) -> None:
        self._program("pg_ctl", "start", "-D", self.data, "-w", "-s", "-l", self.folder / "log")

    def stop(self) -> None:
        signal_all([pid] if (pid := self.postmaster()) else [], signal.SIGCONT)
        ran(PROGRAMS / "pg_ctl", "stop", "-D", self.data, "-m", "immediate", "-s", check=False)

    def promote(self) -> None:
        self._program("pg_ctl", "promote", "-D", self.data, "-w", "-s")

    def kill(self) -> None:
        signal_all([self.postmaster()], signal.SIGKILL)

    def freeze(self) -> None:
        signal_all([self.postmaster()], signal.SIGSTOP)

    def thaw(self) -> None:
        signal_all([self.postmaster()], signal.SIGCONT)

    def _program(self, name: str, *arguments) -> None:
        ran(PROGRAMS / name, *arguments)


class Pair:
    """A primary and its synchronous standby."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.nodes = [Server(name, folder / name) for name in ("first", "second")]

    def start(self) -> None:
        first, second = self.nodes
        first.make_primary()
        second.make_standby_of(first)
        wait_until("the standby is synchronous", self._is_whole)

    def _is_whole(self) -> bool:
        with self.nodes[0].connect() as session:
            states = session.execute("select sync_state from pg_stat_replication").fetchall()
        return states == [("sync",)]

    def stop(self) -> None:
        for node in reversed(self.nodes):
            node.stop()

