"""Two PostgreSQL under Patroni, with etcd and HAProxy, and two replicas of Berth over them."""

import json
import os
import pathlib
import signal
import string
import subprocess
import sys
import threading
import time
import urllib.request

import psycopg
from harness.ports import free_port
from harness.servers import find_berth
from processes import (
    PROGRAMS,
    Process,
    command,
    folder_of,
    needed,
    signal_all,
    wait_until,
)

HERE = pathlib.Path(__file__).resolve().parent
PASSWORD = "berth"


def filled_in(template: str, values: dict) -> str:
    """A file of this folder with its names replaced."""
    return string.Template((HERE / template).read_text()).substitute(values)


class Node:
    """One PostgreSQL with its address; `Patroni` and `streaming.Server` say how it is run."""

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        self.name = name
        self.folder = folder_of(folder)
        self.data = self.folder / "data"
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connect(self, database: str = "postgres", user: str = "postgres", password="superuser"):
        """A session with it, for the operator."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, dbname=database, user=user, password=password,
            connect_timeout=2, autocommit=True, options="-c statement_timeout=2s",
        )  # fmt: skip

    def is_primary(self) -> bool:
        """Whether it answers, and is one."""
        with self.connect() as session:
            return not session.execute("select pg_is_in_recovery()").fetchone()[0]

    def postmaster(self) -> int:
        """The process id of PostgreSQL; 0 if there is none."""
        try:
            return int((self.data / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, IndexError):
            return 0


class Patroni(Node):
    """A node whose PostgreSQL Patroni looks after."""

    def __init__(self, name: str, folder: pathlib.Path, etcd_port: int) -> None:
        super().__init__(name, folder)
        self.rest_port = free_port()
        values = {
            "name": name, "folder": self.folder, "data": self.data, "programs": PROGRAMS,
            "port": self.port, "rest_port": self.rest_port, "etcd_port": etcd_port,
        }  # fmt: skip
        self._config = self.folder / "patroni.yml"
        self._config.write_text(filled_in("patroni.yml", values))
        self._process: Process | None = None

    def start(self) -> None:
        program = pathlib.Path(sys.executable).with_name("patroni")
        words = command(sys.executable, program, self._config)
        self._process = Process(self.name, words, self.folder / "log")

    def stop(self) -> None:
        if self._process:
            self._process.stop()

    def family(self) -> list[int]:
        """Patroni and its PostgreSQL, which do not belong to one group of processes."""
        return [self._process.pid, *filter(None, [self.postmaster()])]

    def kill(self) -> None:
        """As a machine whose processes all end at once."""
        signal_all(self.family(), signal.SIGKILL)
        self._process.kill()

    def kill_postgres(self) -> None:
        signal_all([self.postmaster()], signal.SIGKILL)

    def freeze(self) -> None:
        signal_all(self.family(), signal.SIGSTOP)

    def thaw(self) -> None:
        signal_all(self.family(), signal.SIGCONT)

    def ask(self, path: str, body: dict | None = None) -> dict:
        """Ask Patroni; a body is posted."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.rest_port}{path}",
            data=None if body is None else json.dumps(body).encode(),
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith("{") else {"said": text}


class Watch:
    """Notes when a node was first seen to be the primary, by asking it ten times a second."""

    def __init__(self, node: Node) -> None:
        self.seen: float | None = None
        self._node = node
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while self.seen is None and not self._ended.is_set():
            try:
                if self._node.is_primary():
                    self.seen = time.monotonic()
            except psycopg.Error:
                pass
            self._ended.wait(0.1)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


class Replica:
    """One server of Berth, with its log."""

    def __init__(self, name: str, folder: pathlib.Path, url: str, options: list[str]) -> None:
        self.name = name
        self.port = free_port()
        self.admin_port = free_port()
        self._folder = folder
        self._url = url
        self._options = options
        self._process: Process | None = None

    def start(self) -> None:
        words = [
            find_berth(), "serve", "--listen", f"127.0.0.1:{self.port}",
            "--admin-listen", f"127.0.0.1:{self.admin_port}", "--planner-listen", "none",
            "--log", "warn", *self._options,
        ]  # fmt: skip
        env = os.environ | {"BERTH_DATABASE_URL": self._url}
        self._process = Process(self.name, words, self._folder / f"{self.name}.log", env)

    def wait_until_ready(self) -> None:
        url = f"http://127.0.0.1:{self.admin_port}/readyz"
        wait_until(
            f"{self.name} is ready", lambda: urllib.request.urlopen(url, timeout=5).status == 200
        )

    def stop(self) -> None:
        if self._process:
            self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def freeze(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.signal(signal.SIGCONT)

    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running()


class Replicas:
    """The replicas over one database, and HAProxy in front of them (and of nodes under Patroni)."""

    def __init__(
        self, folder: pathlib.Path, options: list[str], nodes: list[Node], through: str
    ) -> None:
        self.folder = folder
        self.database_port = free_port()
        self.placement_port = free_port()
        addresses = f"127.0.0.1:{self.database_port}"
        if through == "hosts":
            addresses = ",".join(node.address for node in nodes)
        self.url = f"postgres://berth:{PASSWORD}@{addresses}/berth"
        self.all = [Replica(f"replica-{n}", folder, self.url, options) for n in (1, 2)]
        self._nodes = nodes
        self._haproxy: Process | None = None

    def start(self) -> None:
        database = [
            f"    server {node.name} {node.address} check port {node.rest_port}"
            for node in self._nodes
            if isinstance(node, Patroni)
        ]
        placement = [
            f"    server {replica.name} 127.0.0.1:{replica.port} check port {replica.admin_port}"
            for replica in self.all
        ]
        values = {
            "database_port": self.database_port, "database_servers": "\n".join(database),
            "placement_port": self.placement_port, "placement_servers": "\n".join(placement),
        }  # fmt: skip
        config = self.folder / "haproxy.cfg"
        config.write_text(filled_in("haproxy.cfg", values))
        words = [needed("haproxy", "haproxy"), "-db", "-f", config]
        self._haproxy = Process("haproxy", words, self.folder / "haproxy.log")
        wait_until("the database is migrated", self._migrate)
        for replica in self.all:
            replica.start()
        for replica in self.all:
            replica.wait_until_ready()
        front = f"http://127.0.0.1:{self.placement_port}/"
        wait_until(
            "a replica is found through HAProxy",
            lambda: urllib.request.urlopen(front, timeout=5).status == 200,
        )

    def _migrate(self) -> bool:
        done = self.berth("db", "migrate")
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return True

    def berth(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run another command of Berth over the same database."""
        env = os.environ | {"BERTH_DATABASE_URL": self.url}
        words = [find_berth(), *arguments]
        return subprocess.run(words, env=env, capture_output=True, text=True)

    def stop(self) -> None:
        for process in [*self.all, self._haproxy]:
            if process:
                process.stop()


class Cluster:
    """etcd and two nodes under Patroni."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        etcd_port = free_port()
        self._etcd_url = f"http://127.0.0.1:{etcd_port}"
        self.etcd: Process | None = None
        self.nodes = [Patroni(name, folder / name, etcd_port) for name in ("one", "two")]

    def start(self) -> None:
        peer = f"http://127.0.0.1:{free_port()}"
        words = command(
            needed("etcd", "etcd-server"), "--name", "only", "--data-dir",
            folder_of(self.folder / "etcd"), "--listen-client-urls", self._etcd_url,
            "--advertise-client-urls", self._etcd_url, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"only={peer}",
        )  # fmt: skip
        self.etcd = Process("etcd", words, self.folder / "etcd.log")
        self.nodes[0].start()
        wait_until("the first node is primary", self.nodes[0].is_primary)
        with self.nodes[0].connect() as session:
            session.execute(f"create role berth login password '{PASSWORD}'")
            session.execute("create database berth owner berth")
        self.nodes[1].start()
        self.wait_until_whole()

    def primary(self) -> Patroni:
        return next(node for node in self.nodes if _holds(node.is_primary))

    def standby(self) -> Patroni:
        primary = self.primary()
        return next(node for node in self.nodes if node is not primary)

    def wait_until_whole(self) -> None:
        """Wait until one node is primary and the other its synchronous standby."""
        wait_until("both nodes are there", self._is_whole)

    def _is_whole(self) -> bool:
        with self.primary().connect() as session:
            states = session.execute("select sync_state from pg_stat_replication").fetchall()
        return states == [("sync",)]

    def stop(self) -> None:
        for node in self.nodes:
            signal_all(node.family() if node._process else [], signal.SIGCONT)
        for node in reversed(self.nodes):
            node.stop()
        if self.etcd:
            self.etcd.stop()


def _holds(what) -> bool:
    try:
        return what()
    except psycopg.Error:
        return False

