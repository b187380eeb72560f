"""What a run runs on: two databases, links, three replicas; and what faults do to them."""

import asyncio
import contextlib
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from api import Replica
from databases import DATABASE, Node, Pair
from harness.ports import free_port
from harness.postgres import SUPERUSER
from harness.servers import find_berth
from links import Links
from programs import Program, clean_environment
from wire import Broken, Connection, Unreached

PROXY, HOSTS = "proxy", "hosts"
READY_WITHIN_SECONDS = 120
# Room for both clusters with their WAL, and not much more.
DISK_BYTES = 400 * 2**20


class Stage:
    """Starts everything, and ends everything."""

    def __init__(
        self, folder: pathlib.Path, route: str, replicas: int, small_disks: bool, lease: float | None
    ) -> None:
        self.folder = folder
        self.route = route
        self._lease = lease
        self.logs = folder / "logs"
        self.logs.mkdir()
        self._mounted: list[pathlib.Path] = []
        self.links = Links(self.logs / "forwarder.log")
        folders = [folder / name for name in "ab"]
        # Why the disks cannot be made full, if they cannot.
        self.disks_refused = self._mount(folders) if small_disks else "not asked for"
        self.pair = Pair(folders, self.logs)
        self.names = [f"r{number}" for number in range(replicas)]
        self.programs: dict[str, Program] = {}
        self.replicas: list[Replica] = []

    def start(self) -> None:
        self.pair.start()
        url = f"postgres://{SUPERUSER}@127.0.0.1:{self.pair.primary.port}/{DATABASE}"
        migrate = [str(find_berth()), "db", "migrate", "--database-url", url]
        done = subprocess.run(migrate, capture_output=True, text=True, env=clean_environment())
        if done.returncode != 0:
            raise RuntimeError(f"`berth db migrate` failed:\n{done.stdout}{done.stderr}")
        for name in self.names:
            placement, planner = free_port(), free_port()
            command = [
                find_berth(), "serve", "--auth", "noauth2", "--listen", f"127.0.0.1:{placement}",
                "--planner-listen", f"127.0.0.1:{planner}", "--database-url", self._url(name),
                "--events", "24", "--history", "1",
            ]  # fmt: skip
            if self._lease:
                command += ["--primary-lease", f"{self._lease:g}"]
            log = self.logs / f"{name}.log"
            self.programs[name] = Program(name, command, log, clean_environment())
            self.replicas.append(Replica(name, placement, planner))
            self.programs[name].start()

    def _url(self, replica: str) -> str:
        """Each replica has links of its own: one that is redirected, or one to each cluster."""
        if self.route == PROXY:
            ports = [self.links.open(replica, self.pair.primary.port)]
        else:
            ports = [self.links.open(f"{replica}-{node.name}", node.port) for node in self.pair.nodes]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        more = "" if self.route == PROXY else "?target_session_attrs=read-write"
        return f"postgres://{SUPERUSER}@{hosts}/{DATABASE}{more}"

    def links_of(self, replica: str, node: Node | None = None) -> list[str]:
        """The links of a replica: all, or those that lead to a cluster."""
        if self.route == PROXY:
            return [replica]
        return [f"{replica}-{one.name}" for one in self.pair.nodes if node in (None, one)]

    def redirect(self, replicas: list[str], cut: bool = True) -> None:
        """Lead these replicas to the primary, as a proxy does after a promotion.

        Replicas that know both clusters find it by themselves.
        """
        if self.route != PROXY:
            return
        for replica in replicas:
            self.links.redirect(replica, self.pair.primary.port)
            if cut:
                self.links.cut(replica)

    async def ready(self, names: list[str] | None = None) -> None:
        """Wait until the replicas answer a read of the database."""
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        for replica in self.replicas:
            if names is not None and replica.name not in names:
                continue
            while not await answers(replica):
                program = self.programs[replica.name]
                if not program.is_running() or time.monotonic() > deadline:
                    raise RuntimeError(f"{replica.name} does not answer\n{program.tail()}")
                await asyncio.sleep(0.1)

    def restart(self, name: str) -> None:
        """Start a replica that was ended."""
        self.programs[name].start()

    def stop(self) -> None:
        for program in self.programs.values():
            program.signal(signal.SIGCONT)
            program.kill()
        for node in self.pair.nodes:
            node.thaw()
        self.pair.stop()
        self.links.stop()
        for folder in self._mounted:
            subprocess.run(["umount", "-l", folder], check=False)

    def audit(self) -> str:
        """What `berth db check` finds wrong; empty if nothing."""
        url = f"postgres://{SUPERUSER}@127.0.0.1:{self.pair.primary.port}/{DATABASE}"
        command = [str(find_berth()), "db", "check", "--database-url", url]
        done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
        return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip()

    def _mount(self, folders: list[pathlib.Path]) -> str:
        for folder in folders:
            folder.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder]
            try:
                done = subprocess.run(command, capture_output=True, text=True)
            except OSError as missing:
                return str(missing)
            if done.returncode != 0:
                return done.stderr.strip() or "mount failed"
            self._mounted.append(folder)
        return ""


async def answers(replica: Replica) -> bool:
    """Whether a replica answers a read that needs its database."""
    connection = Connection(replica.placement)
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
    try:
        answer = await connection.ask("GET", "/resource_providers?name=nobody", headers, seconds=5)
    except (Unreached, Broken):
        return False
    finally:
        connection.close()
    return answer.status == 200


@contextlib.contextmanager
def temporary_folder(keep: bool):
    """A folder for all files of a run, removed at the end unless it is to be kept."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-chaos-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
