"""The servers that are measured, over databases of one PostgreSQL, and what their work costs."""

import contextlib
import os
import pathlib
import subprocess
import sys

from harness.environment import REPOSITORY, TARGET
from harness.postgres import Cluster
from harness.servers import running

import clouds

HERE = pathlib.Path(__file__).resolve().parent
WORK = TARGET / "bench"
BERTH = TARGET / "release" / "berth"
LOAD = TARGET / "release" / "berth-load"
CORES = os.cpu_count() or 1
THREADS = 10

# As an operator would have it: what is committed is on disk. One checkpoint, at the end.
SETTINGS = {
    "max_connections": "300", "shared_buffers": "1GB", "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
}  # fmt: skip

REFERENCE = """
[DEFAULT]
debug = false
[api]
auth_strategy = noauth2
[placement_database]
connection = postgresql+psycopg2://berth@/{database}?host={host}
max_pool_size = 25
max_overflow = 100
[oslo_policy]
enforce_new_defaults = false
"""


class Service:
    """Running servers of one kind over one database."""

    def __init__(self, servers: list, fresh: bool) -> None:
        self.addresses = [server.url.removeprefix("http://") for server in servers]
        self.pids = [server.pid for server in servers]
        # Whether it closes connections after each answer.
        self.fresh = fresh

    @property
    def url(self) -> str:
        return f"http://{self.addresses[0]}"

    def resident(self) -> int:
        """Bytes of memory, of the largest of its processes."""
        return max(_status(pid, "VmRSS") for pid in tree(self.pids)) * 1024


@contextlib.contextmanager
def berth(
    cluster: Cluster,
    database: str,
    replicas: int = 1,
    options: tuple[str, ...] = (),
    program: pathlib.Path = BERTH,
):
    """Berth, as `berth serve` is with these options and no others."""
    command = [program, "serve", "--auth", "noauth2", "--enforce-new-defaults", "false"]
    command += ["--planner-listen", "none", "--database-url", cluster.url(database), *options]
    with contextlib.ExitStack() as all_of_them:
        servers = [
            all_of_them.enter_context(
                running(f"bench-berth-{n}", command, lambda port: ["--listen", f"127.0.0.1:{port}"])
            )
            for n in range(replicas)
        ]
        yield Service(servers, fresh=False)


@contextlib.contextmanager
def reference(cluster: Cluster, database: str):
    """The reference under uwsgi, a process for each core."""
    folder = WORK / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "placement.conf").write_text(
        REFERENCE.format(database=database, host=cluster.folder)
    )
    command = [
        "env", f"OS_PLACEMENT_CONFIG_DIR={folder}", "uwsgi", "--master", "--die-on-term",
        "--need-app", "--lazy-apps", "--disable-logging", "--module",
        "placement.wsgi.api:application", "--processes", CORES, "--threads", THREADS,
        "--listen", 100, "--buffer-size", 65535,
    ]  # fmt: skip
    with running("bench-reference", command, lambda port: ["--http-socket", f"127.0.0.1:{port}"]) as server:
        yield Service([server], fresh=True)


@contextlib.contextmanager
def constant(body: bytes):
    """A handler that always sends these bytes."""
    file = WORK / "constant"
    file.write_bytes(body)
    command = [LOAD, "constant", "--body", file]
    with running("bench-constant", command, lambda port: ["--listen", f"127.0.0.1:{port}"]) as server:
        yield Service([server], fresh=False)


def prepare(cluster: Cluster, cloud: clouds.Cloud, servers: list[str]) -> dict[str, str]:
    """Make the cloud's databases; return their names by server."""
    prepared = {"berth": prepare_berth, "reference": prepare_reference}
    return {server: prepared[server](cluster, cloud, server) for server in servers}


def prepare_berth(
    cluster: Cluster, cloud: clouds.Cloud, label: str, program: pathlib.Path = BERTH
) -> str:
    """Make the cloud's database for a program of Berth; return its name, which has the label."""
    name = _created(cluster, cloud, label)
    _run([program, "db", "migrate", "--database-url", cluster.url(name)])
    cluster.execute(clouds.statements(cloud, "berth"), name)
    return name


def prepare_reference(cluster: Cluster, cloud: clouds.Cloud, label: str) -> str:
    """Make the cloud's database for the reference; return its name."""
    name = _created(cluster, cloud, label)
    folder = WORK / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "placement.conf").write_text(REFERENCE.format(database=name, host=cluster.folder))
    _run(["placement-manage", "--config-dir", folder, "db", "sync"])
    _sync_names(cluster, name)
    cluster.execute(clouds.statements(cloud, "reference"), name)
    return name


def _created(cluster: Cluster, cloud: clouds.Cloud, label: str) -> str:
    name = f"{cloud.name}-{label}".replace("-", "_")
    cluster.create(name)
    return name


def _run(command: list) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")


def _sync_names(cluster: Cluster, database: str) -> None:
    """The reference adds the standard names when it first serves."""
    with reference(cluster, database):
        pass


def build(folder: pathlib.Path, *options) -> None:
    """Build the program of a folder, with optimisation."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", *map(str, options)]
    if subprocess.run(command, cwd=folder).returncode != 0:
        sys.exit(f"{' '.join(command)} failed in {folder}")


def build_load() -> None:
    """Build our own driver."""
    build(REPOSITORY, "--manifest-path", "bench/load/Cargo.toml", "--target-dir", LOAD.parents[1])


def cpu_seconds(pids: list[int]) -> float:
    """Processor time that the processes and all they started have used so far."""
    ticks = 0
    for pid in tree(pids):
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
            # utime, stime, and those of children that have ended.
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def tree(pids: list[int]) -> list[int]:
    """The processes and all that descend from them."""
    children: dict[int, list[int]] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(") ", 1)[1].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], list(pids)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def _status(pid: int, key: str) -> int:
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
    return 0
