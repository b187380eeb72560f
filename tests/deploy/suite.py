"""The files in deploy/: the Helm chart against the schemas of Kubernetes, the dashboard against that of Grafana, and HAProxy
with real replicas; nginx with the configurations of docs/operating/network.md; and what shells and `man` read.

HAProxy runs with deploy/haproxy.cfg, except that the names of the replicas are addresses of this machine. Its clients
must not notice when a replica is killed, stopped or away, and must see 503 when the database is.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import urllib.error
import urllib.request

import kubernetes_validate
import yaml
from charts import CHART, helm, rendered
from harness.environment import REPOSITORY, TARGET
from harness.postgres import Cluster
from harness.servers import find_berth

DEPLOY = REPOSITORY / "deploy"
REPLICAS = {"berth-1": "127.0.77.1", "berth-2": "127.0.77.2", "berth-3": "127.0.77.3"}
BALANCER = "127.0.77.10"
WITHIN_SECONDS = 60


def status(url: str, method: str = "GET") -> int:
    """The status of an answer; 0 if there is none."""
    body = b"{}" if method in ("PUT", "POST", "PATCH") else None
    headers = {"X-Auth-Token": "admin", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def until(what: str, holds) -> None:
    """Wait for something to hold."""
    end = time.monotonic() + WITHIN_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {WITHIN_SECONDS} s: {what}")
        time.sleep(0.1)


def balancing(text: str, names: dict[str, str] = REPLICAS) -> str:
    """A configuration of HAProxy with addresses of this machine in the places of the names of replicas."""
    for name, address in names.items():
        text = text.replace(f" {name}:", f" {address}:")
    return text.replace("bind :", f"bind {BALANCER}:")


class Site:
    """PostgreSQL, three replicas, and HAProxy in front of them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.cluster = Cluster()
        self.processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "Site":
        self.cluster.__enter__()
        self.cluster.create("berth")
        url = self.cluster.url("berth")
        subprocess.run([find_berth(), "db", "migrate", "--database-url", url], check=True, capture_output=True)
        for name in REPLICAS:
            self.start(name)
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(balancing((DEPLOY / "haproxy.cfg").read_text()))
        states = self.folder / "states.cfg"
        states.write_text(f"global\n    stats socket {self.folder}/states\n")
        self.run("balancer", ["haproxy", "-db", "-f", str(configuration), "-f", str(states)])
        return self

    def __exit__(self, *exception) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.cluster.__exit__(*exception)

    def start(self, name: str) -> None:
        address = REPLICAS[name]
        options = ["--auth", "noauth2", "--allow-noauth", "true", "--listen", f"{address}:8778"]
        options += ["--planner-listen", f"{address}:8090", "--admin-listen", f"{address}:8779"]
        url = self.cluster.url("berth")
        self.run(name, [str(find_berth()), "serve", *options, "--database-url", url])

    def run(self, name: str, command: list[str]) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def end(self, name: str, how: signal.Signals) -> None:
        process = self.processes[name]
        process.send_signal(how)
        process.wait(WITHIN_SECONDS)

    def is_ready(self, name: str) -> bool:
        return status(f"http://{REPLICAS[name]}:8779/readyz") == 200

    def sees(self, name: str, state: str) -> bool:
        """Whether HAProxy has checked a replica, as a server of both backends, and found it `UP` or `DOWN`."""
        with socket.socket(socket.AF_UNIX) as states:
            states.connect(f"{self.folder}/states")
            states.sendall(b"show stat\n")
            rows = csv.DictReader(states.makefile())
            servers = [row for row in rows if row["svname"] == name]
        return len(servers) == 2 and all(row["status"] == state and row["check_status"] != "INI" for row in servers)

    @contextlib.contextmanager
    def load(self):
        """Clients that send requests all the time; yields the statuses of the responses."""
        statuses: list[int] = []
        over = threading.Event()

        def send() -> None:
            while not over.is_set():
                statuses.append(status(f"http://{BALANCER}:8778/resource_providers"))

        clients = [threading.Thread(target=send) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            yield statuses
        finally:
            over.set()
            for client in clients:
                client.join()


def selects(selector: dict, labels: dict) -> bool:
    return selector.items() <= labels.items()


def scraped_by(manifests: list[dict]) -> set[tuple[str, str]]:
    """The label `job` and the path of all that Prometheus scrapes, according to the operator's manifests.

    Each must name a port that a Service of the replicas has.
    """
    services = [it for it in manifests if it["kind"] == "Service"]
    pods = [it["spec"]["template"] for it in manifests if it["kind"] == "Deployment"]
    for service in services:
        names = {port["name"] for pod in pods for it in pod["spec"]["containers"] for port in it["ports"]}
        assert any(selects(service["spec"]["selector"], pod["metadata"]["labels"]) for pod in pods), service
        assert all(port["targetPort"] in names for port in service["spec"]["ports"]), service
    scraped = set()
    for monitor in (it["spec"] for it in manifests if it["kind"] == "ServiceMonitor"):
        for service in services:
            if not selects(monitor["selector"]["matchLabels"], service["metadata"]["labels"]):
                continue
            # Without the label, the job is the name of the Service.
            job = service["metadata"]["labels"].get(monitor.get("jobLabel"), service["metadata"]["name"])
            ports = {port["name"] for port in service["spec"]["ports"]}
            scraped |= {(job, it["path"]) for it in monitor["endpoints"] if it["port"] in ports}
    for config in (it["spec"] for it in manifests if it["kind"] == "ScrapeConfig"):
        for target in (target for it in config["staticConfigs"] for target in it["targets"]):
            name, port = target.split(":")
            (service,) = (it for it in services if it["metadata"]["name"] == name.split(".")[0])
            assert int(port) in {it["port"] for it in service["spec"]["ports"]}, target
            scraped.add((config["jobName"], config["metricsPath"]))
    return scraped


class Manifests(unittest.TestCase):
    def test_the_chart_makes_manifests_that_kubernetes_expects(self) -> None:
        linted = helm("lint", "--strict", str(CHART))
        self.assertEqual(linted.returncode, 0, linted.stdout)
        manifests = rendered("monitoring=true", "env[0].name=RUST_BACKTRACE", "env[0].value=full")
        for manifest in manifests:
            if not manifest["apiVersion"].startswith("monitoring.coreos.com/"):
                kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
        kinds = {manifest["kind"] for manifest in manifests}
        always = {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"}
        self.assertEqual(kinds, always | {"Job", "ServiceMonitor", "ScrapeConfig"})
        self.assertEqual({it["kind"] for it in rendered("database.migrate=false")}, always)

    def test_the_chart_takes_over_its_values_and_refuses_unknown_ones(self) -> None:
        manifests = rendered("replicas=5", "image.repository=registry/berth", "database.secret=db", "config=log = \"warn\"")
        (deployment,) = (it for it in manifests if it["kind"] == "Deployment")
        self.assertEqual(deployment["spec"]["replicas"], 5)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["image"], "registry/berth:0.1.0")
        self.assertEqual(container["env"][0]["valueFrom"]["secretKeyRef"], {"name": "db", "key": "url"})
        self.assertIn('log = "warn"', next(it["data"]["berth.toml"] for it in manifests if it["kind"] == "ConfigMap"))
        refused = helm("template", "prod", str(CHART), "--set", "replica=5")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("'replica' not allowed", refused.stderr)

    def test_prometheus_scrapes_under_the_jobs_that_the_alerts_name(self) -> None:
        rules = yaml.safe_load((DEPLOY / "prometheus" / "berth.rules.yml").read_text())["groups"]
        alerts = {rule["alert"]: rule["expr"] for group in rules for rule in group["rules"]}
        named = {job for expression in alerts.values() for job in re.findall(r'job="([^"]*)"', expression)}
        scraped = scraped_by(rendered("monitoring=true"))
        head = (DEPLOY / "prometheus" / "berth.rules.yml").read_text().split("groups:")[0]
        self.assertEqual(named, {"berth"})
        self.assertEqual(scraped, {("berth", "/metrics"), ("berth-cloud", "/metrics/cloud")})
        for text in (head, (REPOSITORY / "docs" / "operating" / "first-installation.md").read_text()):
            written = re.findall(r"- job_name: (\S+).*\n(?:.*metrics_path: (\S+))?", text)
            self.assertEqual({(job, path or "/metrics") for job, path in written}, scraped)

    def test_the_configuration_of_the_deployment_is_one(self) -> None:
        text = next(it["data"]["berth.toml"] for it in rendered() if it["kind"] == "ConfigMap")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "berth.toml"
            path.write_text(text)
            command = [find_berth(), "config", "check", "--config", path, "--database-url", "postgres://x@y/z"]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_whoever_stops_berth_waits_for_its_delay_and_its_grace(self) -> None:
        sample = (REPOSITORY / "samples" / "berth.toml").read_text()
        grace = int(re.search(r"^#shutdown-grace = (\d+)$", sample, re.MULTILINE)[1])
        unit = (REPOSITORY / "samples" / "berth.service").read_text()
        replica = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["berth-1"]
        manifests = rendered()
        options = next(it["data"]["berth.toml"] for it in manifests if it["kind"] == "ConfigMap")
        pod = next(it["spec"]["template"]["spec"] for it in manifests if it["kind"] == "Deployment")
        checks = re.search(r"inter (\d+)s fall (\d+)", (DEPLOY / "haproxy.cfg").read_text())
        for name, delay, patience in (
            (
                "berth.service",
                re.search(r"^Environment=BERTH_SHUTDOWN_DELAY=(\d+)$", unit, re.MULTILINE)[1],
                re.search(r"^TimeoutStopSec=(\d+)s$", unit, re.MULTILINE)[1],
            ),
            ("compose", replica["environment"]["BERTH_SHUTDOWN_DELAY"], replica["stop_grace_period"].rstrip("s")),
            (
                "kubernetes",
                re.search(r"^shutdown-delay = (\d+)$", options, re.MULTILINE)[1],
                pod["terminationGracePeriodSeconds"],
            ),
        ):
            # A check may have begun just before the stop, and each may take as long as the interval.
            self.assertGreater(int(delay), int(checks[1]) * (int(checks[2]) + 1), name)
            # It ends by force five seconds after the grace.
            self.assertGreater(int(patience), int(delay) + grace + 5, name)

    def test_a_release_is_published_after_the_tests(self) -> None:
        jobs = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yml").read_text())["jobs"]
        self.assertEqual(set(jobs["publish"]["needs"]), set(jobs) - {"publish"})
        self.assertIn(".ci/run test-all", [step.get("run") for step in jobs["tests"]["steps"]])
        pushing = {name for name, job in jobs.items() if "docker login" in str(job) or "login-action" in str(job) or "buildah push" in str(job)}
        self.assertTrue(pushing)
        for name in pushing:
            self.assertIn("tests", jobs[name]["needs"])

    def test_the_services_of_compose_refer_to_each_other(self) -> None:
        compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
        services = compose["services"]
        for service in services.values():
            for other in service.get("depends_on", []):
                self.assertIn(other, services)
        balanced = (DEPLOY / "haproxy.cfg").read_text()
        for name in REPLICAS:
            self.assertIn(name, services)
            self.assertIn(f"server {name} {name}:8778", balanced)
            self.assertIn(f"server {name} {name}:8090", balanced)


class Dashboard(unittest.TestCase):
    """The dashboard is checked by TypeScript against the types that Grafana generates from its schemas.

    No package index that the tests use has a Grafana server.
    """

    PACKAGES = ("@grafana/schema@13.2.3", "typescript@5.9.3")

    def setUp(self) -> None:
        if shutil.which("npm") is None:
            print("SKIPPED: the dashboard is not checked: install the package npm", file=sys.stderr)
            self.skipTest("npm is missing")
        self.folder = TARGET / "deploy" / "dashboard"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "package.json").write_text("{}")
        install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", *self.PACKAGES]
        subprocess.run(install, cwd=self.folder, check=True)

    def faults(self, dashboard: dict) -> str:
        """What is wrong with the dashboard; empty if nothing is."""
        types = "./node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen"
        panels = dashboard["panels"]
        # One by one, because TypeScript allows the fields of rows in the panels of a dashboard.
        lines = [f"import type {{Dashboard, Panel}} from '{types}';"]
        lines += [f"export const panel{nth}: Panel = {json.dumps(it)};" for nth, it in enumerate(panels)]
        lines += [f"export const dashboard: Dashboard = {json.dumps({**dashboard, 'panels': []})};"]
        (self.folder / "dashboard.ts").write_text("\n".join(lines))
        check = ["node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck"]
        check += ["--module", "commonjs", "--moduleResolution", "node10", "--target", "es2022"]
        done = subprocess.run([*check, "dashboard.ts"], cwd=self.folder, capture_output=True, text=True)
        return done.stdout + done.stderr

    def test_the_dashboard_is_what_grafana_expects(self) -> None:
        text = (DEPLOY / "grafana" / "berth.json").read_text()
        self.assertEqual(self.faults(json.loads(text)), "")
        for right, wrong in (
            ('"gridPos"', '"gridpos"'),
            ('"unit": "bytes"', '"unit": 5'),
            ('"type": "query"', '"type": "question"'),
            ('"schemaVersion": 39', '"schemaVersion": "39"'),
        ):
            self.assertIn(right, text)
            self.assertIn("error TS", self.faults(json.loads(text.replace(right, wrong))), wrong)

    def test_panels_do_not_overlap(self) -> None:
        panels = json.loads((DEPLOY / "grafana" / "berth.json").read_text())["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken: set[tuple[int, int]] = set()
        for panel in panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
            cells = {(x, y) for x in columns for y in rows}
            self.assertEqual(cells & taken, set(), panel["title"])
            taken |= cells


class Balanced(unittest.TestCase):
    def setUp(self) -> None:
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.site = self.enterContext(Site(folder))
        for name in REPLICAS:
            until(f"{name} is ready", lambda name=name: self.site.is_ready(name))
        until("the balancer responds", lambda: status(f"http://{BALANCER}:8778/resource_providers") == 200)
        for name in REPLICAS:
            until(f"the balancer knows {name}", lambda name=name: self.site.sees(name, "UP"))

    def some_responses(self, statuses: list[int]) -> None:
        """Wait for some more responses, and require that all are 200."""
        more = len(statuses) + 200
        until("clients get responses", lambda: len(statuses) > more)
        self.assertEqual(set(statuses), {200})

    def test_clients_do_not_notice_a_replica_that_is_stopped(self) -> None:
        with self.site.load() as statuses:
            self.site.end("berth-1", signal.SIGTERM)
            until("the balancer knows it", lambda: self.site.sees("berth-1", "DOWN"))
            self.some_responses(statuses)
            self.site.start("berth-1")
            until("the balancer knows it again", lambda: self.site.sees("berth-1", "UP"))
            self.some_responses(statuses)

    def test_a_replica_that_is_killed_is_replaced(self) -> None:
        self.site.end("berth-2", signal.SIGKILL)
        until("the balancer knows it", lambda: self.site.sees("berth-2", "DOWN"))
        with self.site.load() as statuses:
            self.some_responses(statuses)
        self.assertEqual(status(f"http://{BALANCER}:8090/v1/status"), 200)

    def test_without_the_database_the_balancer_says_503(self) -> None:
        root = f"http://{BALANCER}:8778/"
        self.assertEqual(status(root), 200)
        self.site.cluster.stop()
        # `GET /` needs no database, so that only the health checks can tell.
        until("no replica is ready", lambda: status(root) == 503)
        self.site.cluster.start()
        until("they are ready again", lambda: status(root) == 200)
        self.assertEqual(status(f"{root}resource_providers"), 200)


class Dying(socketserver.StreamRequestHandler):
    """A replica that is ready, but dies whenever it has read a request."""

    seen: list[str] = []

    @classmethod
    def serve(cls, test: unittest.TestCase, ports: tuple[int, ...]) -> None:
        """Serve on these ports of the address of each replica until the end of the test."""
        cls.seen = []
        for address in REPLICAS.values():
            for port in ports:
                replica = test.enterContext(Threaded((address, port), cls))
                threading.Thread(target=replica.serve_forever, daemon=True).start()
                test.addCleanup(replica.shutdown)

    def handle(self) -> None:
        line = self.rfile.readline().decode()
        length = 0
        while header := self.rfile.readline().decode().strip().lower():
            if header.startswith("content-length:"):
                length = int(header.split(":")[1])
        self.rfile.read(length)
        if " /readyz " in line:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        elif line:
            self.seen.append(line.split()[0])


class Threaded(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def of_the_handbook() -> str:
    """The configuration of HAProxy in docs/operating/first-installation.md, without what needs root."""
    page = (REPOSITORY / "docs" / "operating" / "first-installation.md").read_text()
    text = page.split("cat >/etc/haproxy/haproxy.cfg <<'END'\n")[1].split("    END\n")[0]
    lines = textwrap.dedent(text).splitlines(keepends=True)
    return "".join(line for line in lines if line.split()[:1] not in (["user"], ["group"]))


class Repeated(unittest.TestCase):
    """What a balancer sends again when replicas die after they have read a request."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        Dying.serve(self, (8778, 8090, 8779))

    def balance(self, text: str) -> None:
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(text)
        with open(self.folder / "balancer.log", "ab") as log:
            balancer = subprocess.Popen(["haproxy", "-db", "-f", str(configuration)], stdout=log, stderr=log)
        self.addCleanup(balancer.wait)
        self.addCleanup(balancer.kill)
        until("the balancer listens", lambda: status(f"http://{BALANCER}:8778/") != 0)
        until("the balancer listens", lambda: status(f"http://{BALANCER}:8090/") != 0)

    def check(self) -> None:
        for port in (8778, 8090):
            for method in ("PUT", "POST", "DELETE", "PATCH"):
                Dying.seen.clear()
                self.assertEqual(status(f"http://{BALANCER}:{port}/allocations/x", method), 502)
                self.assertEqual(Dying.seen, [method])
            Dying.seen.clear()
            self.assertEqual(status(f"http://{BALANCER}:{port}/allocations/x"), 502)
            self.assertGreater(len(Dying.seen), 1)

    def test_deploy_sends_writes_once(self) -> None:
        self.balance(balancing((DEPLOY / "haproxy.cfg").read_text()))
        self.check()

    def test_the_handbook_sends_writes_once(self) -> None:
        names = {name.replace("-", ""): address for name, address in REPLICAS.items()}
        self.balance(balancing(of_the_handbook(), names))
        self.check()


def of_the_page(beginning: str) -> str:
    """The configuration of nginx in docs/operating/network.md that begins so."""
    page = (REPOSITORY / "docs" / "operating" / "network.md").read_text()
    blocks = re.findall(r"(?:^(?:    .*)?\n)+", page, re.MULTILINE)
    (block,) = (text for text in map(textwrap.dedent, blocks) if text.strip().startswith(beginning))
    return block


class Nginx(unittest.TestCase):
    """nginx with the configurations of docs/operating/network.md."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, name: str, command: list[str]) -> subprocess.Popen:
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def nginx(self, text: str) -> subprocess.Popen:
        # Its workers must be able to use the socket of Berth, which belongs to the user of this test.
        user = "user root;" if os.geteuid() == 0 else ""
        places = "".join(
            f"{kind}_temp_path {self.folder}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        configuration = self.folder / "nginx.conf"
        configuration.write_text(
            f"{user} daemon off; master_process off; error_log stderr; pid {self.folder}/nginx.pid; events {{}}\n"
            f"http {{ access_log off; {places}\n{text} }}\n"
        )
        process = self.start("nginx", ["nginx", "-e", "stderr", "-c", str(configuration)])

        def listens() -> bool:
            with contextlib.suppress(OSError), socket.create_connection((BALANCER, 8080), 1):
                return True
            return process.poll() is not None

        until("nginx listens", listens)
        self.assertIsNone(process.poll(), (self.folder / "nginx.log").read_text())
        return process

    def test_requests_reach_the_unix_socket_with_their_ids(self) -> None:
        cluster = self.enterContext(Cluster())
        cluster.create("berth")
        url = cluster.url("berth")
        subprocess.run([find_berth(), "db", "migrate", "--database-url", url], check=True, capture_output=True)
        berth = self.folder / "berth.sock"
        options = ["--auth", "noauth2", "--listen", f"unix:{berth}", "--planner-listen", "none", "--trusted-proxies", "unix:"]
        self.start("berth", [str(find_berth()), "serve", *options, "--database-url", url])
        until("Berth listens", berth.exists)
        text = of_the_page("location /placement/ {").replace("/run/berth/berth.sock", str(berth))
        self.nginx(f"server {{ listen {BALANCER}:8080; {text} }}")
        until("Berth is ready", lambda: status(f"http://{BALANCER}:8080/placement/readyz") == 200)
        own = "req-11111111-2222-3333-4444-555555555555"
        headers = {
            "X-Auth-Token": "admin",
            "Content-Type": "application/json",
            "OpenStack-API-Version": "placement 1.39",
            "X-Openstack-Request-Id": own,
        }
        place = f"http://{BALANCER}:8080/placement/resource_providers"
        request = urllib.request.Request(place, data=b'{"name": "host"}', headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            self.assertEqual(answer.status, 200)
            self.assertTrue(answer.headers["Location"].startswith(f"{place}/"), answer.headers["Location"])
            given = answer.headers["X-Openstack-Request-Id"]
        until("the log has both ids", lambda: given in (log := (self.folder / "berth.log").read_text()) and own in log)
        line = next(line for line in (self.folder / "berth.log").read_text().splitlines() if given in line)
        self.assertIn("remote=127.0.0.1 ", line)
        self.assertEqual(status(place), 200)

    def test_several_replicas_get_writes_once(self) -> None:
        Dying.serve(self, (8778,))
        text = of_the_page("upstream placement {").replace("listen 80;", f"listen {BALANCER}:8080;")
        for name, address in REPLICAS.items():
            text = text.replace(f" {name.replace('-', '')}:", f" {address}:")
        for method in ("PUT", "POST", "DELETE", "PATCH", "GET"):
            # A new one has not found any replica to be dead.
            process = self.nginx(text)
            Dying.seen.clear()
            self.assertEqual(status(f"http://{BALANCER}:8080/placement/allocations/x", method), 502)
            process.kill()
            process.wait()
            self.assertEqual(Dying.seen, [method] * (len(REPLICAS) if method == "GET" else 1))


class Shell(unittest.TestCase):
    """What `berth completions` and `berth man` print, read by the programs they are for."""

    def test_bash_completes_commands_and_options(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "berth"
            script.write_bytes(subprocess.check_output([find_berth(), "completions", "bash"]))

            def completed(*words: str) -> list[str]:
                quoted = " ".join(f"'{word}'" for word in words)
                command = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
                command += f"_berth berth '{words[-1]}' '{words[-2]}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
                return subprocess.check_output(["bash", "-c", command], text=True).split()

            self.assertEqual(completed("berth", "ser"), ["serve"])
            self.assertEqual(completed("berth", "db", "mig"), ["migrate"])
            self.assertIn("--admin-listen", completed("berth", "serve", "--admin"))

    def test_every_shell_has_a_script(self) -> None:
        for shell in ("bash", "zsh", "fish"):
            script = subprocess.check_output([find_berth(), "completions", shell], text=True)
            self.assertIn("admin-listen", script)
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_every_command_has_a_manual_page(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.check_call([find_berth(), "man", folder])
            pages = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        for name in ("berth.1", "berth-serve.1", "berth-db-migrate.1", "berth-config-check.1"):
            self.assertIn(name, pages)
        self.assertIn("admin\\-listen", pages["berth-serve.1"])


def main() -> None:
    options = argparse.ArgumentParser(prog="tests/deploy/run", description=__doc__)
    options.add_argument("tests", nargs="*", help="some of them, such as Balanced; all without")
    chosen = options.parse_args()
    os.environ["PATH"] += f"{os.pathsep}/usr/sbin"
    if shutil.which("haproxy") is None:
        sys.exit("haproxy is missing: apt-get install haproxy")
    if shutil.which("nginx") is None:
        sys.exit("nginx is missing: apt-get install nginx-light")
    with socket.create_server((BALANCER, 0)):
        pass
    loader = unittest.TestLoader()
    names = [f"{__name__}.{name}" for name in chosen.tests]
    suite = loader.loadTestsFromNames(names) if names else loader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
