"""A cloud's Placement in small: Keystone, MariaDB, the old service under uwsgi, HAProxy, and Berth beside them."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse

from harness import servers
from harness.environment import REPOSITORY
from harness.ports import free_port, is_free
from harness.postgres import Cluster

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "keystone"))
sys.path.insert(0, str(HERE.parent / "moving"))

from identity import REGION, Keystone, keystone, password, project  # noqa: E402
from wsgi import http_socket, uwsgi  # noqa: E402

import sources  # noqa: E402

WITHIN_SECONDS = 120
SERVICES = ("placement", "nova", "neutron", "cyborg")

# What the old service reads, and `berth config convert`.
PLACEMENT_CONF = """
[DEFAULT]
use_stderr = true
[api]
auth_strategy = keystone
[placement_database]
connection = {connection}
[oslo_policy]
policy_file = {folder}/policy.yaml
[keystone_authtoken]
service_type = placement
www_authenticate_uri = {keystone}
auth_type = password
auth_url = {keystone}
username = placement
password = {password}
user_domain_name = Default
project_name = service
project_domain_name = Default
region_name = {region}
"""

# For nova-manage, beside what clients have.
NOVA_CONF = """
[DEFAULT]
transport_url = fake://
[api_database]
connection = sqlite:///{folder}/nova-api.sqlite
[database]
connection = sqlite:///{folder}/nova-cell.sqlite
"""

# The part of nova.conf, neutron.conf and cyborg.conf that is about Placement.
CLIENT_CONF = """
[DEFAULT]
state_path = {folder}
[placement]
auth_type = password
auth_url = {keystone}
username = {user}
password = {password}
user_domain_name = Default
project_name = service
project_domain_name = Default
region_name = {region}
"""


def until(what: str, holds, within: float = WITHIN_SECONDS, every: float = 0.1):
    """Wait for something to hold; return it."""
    end = time.monotonic() + within
    while not (found := holds()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within} s: {what}")
        time.sleep(every)
    return found


class Balancer:
    """HAProxy with deploy/haproxy-moving.cfg, and its runtime socket."""

    def __init__(self, folder: pathlib.Path, old: int, berth: int, *changes: tuple[str, str]) -> None:
        """With the ports of the servers, and changes of the text."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._socket = folder / "haproxy.sock"
        text = (REPOSITORY / "deploy" / "haproxy-moving.cfg").read_text()
        for theirs, ours in (
            ("/run/haproxy/admin.sock", str(self._socket)),
            ("bind :8778", f"bind 127.0.0.1:{self.port}"),
            ("placement-old:8778", f"127.0.0.1:{old}"),
            ("placement-berth:8778", f"127.0.0.1:{berth}"),
            # For journal.py.
            ("    use_backend placement-reads", "    http-response set-header Answered-By %s\n    use_backend placement-reads"),
            *changes,
        ):
            assert theirs in text, theirs
            text = text.replace(theirs, ours)
        self._file = folder / "haproxy.cfg"
        self._file.write_text(text)
        self._log = folder / "haproxy.log"

    def __enter__(self) -> "Balancer":
        program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
        with open(self._log, "w") as log:
            command = [program or sys.exit("haproxy is missing: run `tools/install haproxy`"), "-db", "-f", str(self._file)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until("HAProxy listens", self._socket.exists)
        return self

    def __exit__(self, *_exception) -> None:
        self._process.terminate()
        self._process.wait()

    def tell(self, commands: str) -> str:
        """What `echo COMMANDS | socat stdio SOCKET` prints."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._socket))
            connection.sendall(commands.encode() + b"\n")
            parts = iter(lambda: connection.recv(65536), b"")
            return b"".join(parts).decode().strip()

    def hold_writes(self, at: str) -> None:
        """Let writes wait, and return when those that have reached the server are answered."""
        self._silent("set server placement-writes/waiting state ready; "
                     f"set server placement-writes/{at} state maint")  # fmt: skip
        until(f"no write is under way at {at}", lambda: self.under_way(at) == 0)

    def release_writes(self, to: str) -> None:
        """Send the writes that wait to this server."""
        self._silent(f"set server placement-writes/{to} state ready; "
                     "set server placement-writes/waiting state maint")  # fmt: skip

    def under_way(self, server: str) -> int:
        """How many requests this server has not answered."""
        lines = self.tell("show stat").splitlines()
        header = lines[0].removeprefix("# ").split(",")
        rows = [dict(zip(header, line.split(","))) for line in lines[1:]]
        return sum(int(it["scur"]) for it in rows if (it["pxname"], it["svname"]) == ("placement-writes", server))

    def switch(self, old: str, new: str) -> None:
        """Send reads to another server, and then the writes that wait."""
        self._silent(f"set server placement-reads/{new} state ready; set server placement-reads/{old} state maint")
        self.release_writes(new)

    def _silent(self, commands: str) -> None:
        output = self.tell(commands)
        assert not output, f"{commands}: {output}"


class Stage(contextlib.ExitStack):
    """All of it, with the old service serving and nothing in Berth's database."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__()
        self.folder = folder

    def __enter__(self) -> "Stage":
        super().__enter__()
        self.source = self.enter_context(sources.mariadb())
        self.cluster = self.enter_context(Cluster())
        self.cluster.create("berth")
        self.keystone = self.enter_context(keystone(self.folder / "keystone"))
        self.old_port, self.berth_port = free_port(), free_port()
        self.old_url, self.berth_url = (f"http://127.0.0.1:{port}" for port in (self.old_port, self.berth_port))
        self.balancer = self.enter_context(Balancer(self.folder, self.old_port, self.berth_port))
        self.passwords = people(self.keystone, self.balancer.url)
        return self

    @property
    def database(self) -> str:
        """The URL of Berth's database."""
        return self.cluster.url("berth")

    def token(self) -> str:
        return self.keystone.authenticate(password("nova", self.passwords["nova"]), project("service"))

    def second_source(self) -> str:
        """The URL of a second, empty database in the same MariaDB."""
        import pymysql

        path = re.search("unix_socket=(.*)", self.source)[1]
        with pymysql.connect(unix_socket=path, user="root") as connection:
            connection.cursor().execute("create database placement_back")
        return self.source.replace("/placement?", "/placement_back?")

    def placement_conf(self, connection: str) -> pathlib.Path:
        """The old service's configuration for this database, in a folder of its own."""
        folder = self.folder / f"placement-{len(list(self.folder.glob('placement-*')))}"
        folder.mkdir()
        (folder / "policy.yaml").write_text("{}\n")
        text = PLACEMENT_CONF.format(
            connection=connection, folder=folder, keystone=self.keystone.url, region=REGION,
            password=self.passwords["placement"],
        )  # fmt: skip
        (folder / "placement.conf").write_text(text)
        command = ["placement-manage", "--config-dir", folder, "db", "sync"]
        subprocess.run(command, check=True, capture_output=True, env=servers._environment())
        return folder / "placement.conf"

    @contextlib.contextmanager
    def old_service(self, conf: pathlib.Path):
        """The old service, at its port."""
        environment = {"OS_PLACEMENT_CONFIG_DIR": conf.parent}
        command = uwsgi("placement.wsgi.api:application", environment, processes=3, threads=1)
        with self.serving("old", [*command, *http_socket(self.old_port)], self.old_url):
            yield

    @contextlib.contextmanager
    def berth(self, config: pathlib.Path):
        """Berth, at its port, with this configuration."""
        command = [servers.find_berth(), "serve", "--config", config, "--planner-listen", "none"]
        with self.serving("berth", [*command, "--listen", f"127.0.0.1:{self.berth_port}"], self.berth_url):
            yield

    @contextlib.contextmanager
    def serving(self, name: str, command: list, url: str):
        """Run a server until the block ends."""
        log = self.folder / f"{name}.log"
        # Workers of a uwsgi that was killed because it did not stop in time end somewhat later.
        until(f"the port of {name} is free", lambda: is_free(urllib.parse.urlsplit(url).port))
        with open(log, "a") as out:
            process = subprocess.Popen(
                [str(part) for part in command],
                cwd=self.folder, env=servers._environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        server = servers.Server(url, process, log)
        try:
            servers._wait_until_ready(server, "/")
            yield server
        finally:
            server.stop()

    def client_conf(self, service: str) -> pathlib.Path:
        path = self.folder / f"{service}.conf"
        path.write_text(CLIENT_CONF.format(
            folder=self.folder, keystone=self.keystone.url, user=service, password=self.passwords[service],
            region=REGION,
        ))  # fmt: skip
        return path

    @contextlib.contextmanager
    def clients(self, phase: str, hosts: list[str], schedulers: int):
        """Nova, neutron and cyborg, at work until the block ends; yields the files in which they write."""
        files, processes = {}, {}
        for service in ("nova", "neutron", "cyborg"):
            journal = self.folder / f"{service}-{phase}.journal"
            journal.touch()
            settings = {
                "config": str(self.client_conf(service)), "journal": str(journal), "placement": self.balancer.url,
                "seed": f"{phase} {service}", "hosts": hosts, "schedulers": schedulers,
            }  # fmt: skip
            path = self.folder / f"{service}-{phase}.json"
            path.write_text(json.dumps(settings))
            with open(self.folder / f"{service}-{phase}.log", "w") as log:
                command = [sys.executable, HERE / f"{service}_service.py", path]
                processes[service] = subprocess.Popen(
                    command, stdout=log, stderr=log, env=servers._environment(), cwd=HERE
                )
            files[service] = journal
        try:
            yield files
            for process in processes.values():
                process.terminate()
            for process in processes.values():
                process.wait(WITHIN_SECONDS)
        finally:
            # After a failure, some may wait for writes that are held.
            for process in processes.values():
                process.kill()
                process.wait()
        for service, process in processes.items():
            if process.returncode:
                raise AssertionError(f"{service}:\n{(self.folder / f'{service}-{phase}.log').read_text()[-4000:]}")


def people(keystone: Keystone, placement: str) -> dict[str, str]:
    """Make the services' users and the catalog; return the passwords."""
    role, passwords = keystone.id("role", "service"), {}
    service = keystone.make("project", name="service", domain_id="default")
    for name in SERVICES:
        passwords[name] = keystone.secret()
        user = keystone.make("user", name=name, domain_id="default", password=passwords[name])
        keystone.call("PUT", f"/projects/{service}/users/{user}/roles/{role}")
    keystone.make("region", id=REGION)
    for kind, url in (("identity", f"{keystone.url}/v3"), ("placement", placement)):
        made = keystone.make("service", name=kind, type=kind)
        for interface in ("public", "internal", "admin"):
            keystone.make("endpoint", service_id=made, region_id=REGION, interface=interface, url=url)
    # One by one: the first log-in of a day is written down, and SQLite lets only one write.
    for name, secret in passwords.items():
        keystone.authenticate(password(name, secret), project("service"))
    return passwords
