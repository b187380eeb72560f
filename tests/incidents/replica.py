"""A replica with its database, and what clients and other people do to it."""

import contextlib
import json
import os
import re
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
import uuid

from harness.ports import free_port
from harness.servers import find_berth
from prometheus import until

HOST = "11111111-1111-1111-1111-111111111111"
UNVERIFIED = ssl._create_unverified_context()


class Replica:
    """A replica with its database, which has one host."""

    def __init__(self, cluster, database, options):
        self.cluster, self.database = cluster, database
        scheme = "https" if "--tls-cert" in options else "http"
        self.url, self.admin = f"{scheme}://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self._command = ["prlimit", "--nofile=2048", find_berth(), "serve", "--config", "/dev/null", "--database-url", cluster.url(database)]
        self._command += ["--listen", self.url.partition("://")[2], "--planner-listen", "none"]
        self._command += ["--admin-listen", self.admin, *options]
        self.process = None

    def start(self, stderr=subprocess.DEVNULL, variables=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "OS_"))}
        self.process = subprocess.Popen(self._command, stderr=stderr, env=environment | (variables or {}))
        until("the replica is ready", 60, self._is_ready)

    def _is_ready(self):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{self.admin}/readyz", timeout=5) as answer:
            return answer.status == 200

    def kill(self):
        self.process.kill()
        self.process.wait()

    def metric(self, name):
        """The value of a metric without labels."""
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return float(re.search(rf"^{name} (\S+)", text, re.MULTILINE)[1])

    def ask(self, method, path, body=None, token="admin"):
        headers = {"X-Auth-Token": token, "OpenStack-API-Version": "placement 1.39", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=UNVERIFIED) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def create_host(self):
        assert self.ask("POST", "/resource_providers", {"name": "host", "uuid": HOST}) == 200
        total = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 1_000_000}}}
        assert self.ask("PUT", f"/resource_providers/{HOST}/inventories", total) == 200

    def claim(self, amount=1):
        allocations = {HOST: {"resources": {"VCPU": amount}}}
        owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
        return self.ask("PUT", f"/allocations/{uuid.uuid4()}", {"allocations": allocations} | owner)

    def repeatedly(self, work, clients=1):
        """Does something all the time."""
        return Repeated(work, clients)

    @contextlib.contextmanager
    def session(self, statements):
        """A person's psql that has carried out these statements, and stays."""
        command = ["psql", "-X", "-q", "-t", "-h", str(self.cluster.folder), "-U", "berth", self.database]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process.stdin.write(statements + "\n\\echo done\n")
        process.stdin.flush()
        while "done" not in process.stdout.readline():
            pass
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def locked_host(self):
        return self.session("begin; select from providers for update;")

    def execute(self, statements):
        return self.cluster.execute(statements, self.database)


class Repeated:
    def __init__(self, work, clients):
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._repeat, args=(work,)) for _ in range(clients)]

    def _repeat(self, work):
        while not self._stop.wait(0.05):
            work()

    def __enter__(self):
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_exception):
        self._stop.set()
        for thread in self._threads:
            thread.join()
