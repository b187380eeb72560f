"""`berth shadow` in front of the reference, with a Berth that was imported from its database.

Clients of the proxy must get the reference's answers, whatever Berth does. Differences must be reported, and
nothing else.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

from harness import suites
from harness.commands import berth, serving
from harness.environment import REPOSITORY
from harness.ports import free_port
from harness.servers import Berth, Reference, _environment, find_berth, running

import stub

# Before this folder, which has a module of that name as well.
sys.path.insert(0, str(REPOSITORY / "tests" / "moving"))
import sources  # noqa: E402

sys.path.insert(0, str(REPOSITORY / "tests" / "differential"))
import routes  # noqa: E402
import suite as differential  # noqa: E402
from cloud import OWNERS, Cloud  # noqa: E402
from exchange import Answer, Request, send  # noqa: E402

PATIENCE = 120
BUILDING = 120
READS = 250
WRITES = 300
# Headers of an answer that differ from one to the next.
OWN = {"date", "last-modified", "x-openstack-request-id"}


class Asking(differential.Both):
    """One service, asked as if it were two."""

    def __init__(self, url: str) -> None:
        super().__init__(url, url, differential.Tally(), "shadow")

    def ask(self, request: Request) -> Answer:
        return self._send(self._reference, request)


class Comparing(differential.Both):
    """Both services. What the reference fails at is not compared."""

    def ask(self, request: Request) -> Answer:
        answer = self._send(self._reference, request)
        return answer if answer.status >= 500 else super().ask(request)


class Shadow:
    """A running proxy."""

    def __init__(self, server, admin: int) -> None:
        self.url, self._server, self._admin = server.url, server, f"http://127.0.0.1:{admin}"

    def admin(self, path: str, method: str = "GET") -> str:
        """The text that the administrative address responds with."""
        request = urllib.request.Request(self._admin + path, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def summary(self) -> dict:
        return json.loads(self.admin("/summary"))

    def settled(self, forwarded: int = 0) -> dict:
        """The summary when nothing is left to do. `forwarded` is the number of reads that are never mirrored."""

        def is_settled(summary: dict) -> bool:
            # A read is handed over after the client has its response.
            counted = summary["mirrored"]["read"] + sum(summary["not_mirrored"]["read"].values())
            answered = summary["requests"]["read"].get("answered", 0)
            return summary["pending"] == {"read": 0, "write": 0} and counted + forwarded >= answered

        return self.until(is_settled)

    def until(self, is_so) -> dict:
        deadline = time.monotonic() + PATIENCE
        while not is_so(summary := self.summary()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain: {summary}\n{self._server.tail()}")
            time.sleep(0.05)
        return summary

    def signal(self, number: int) -> None:
        subprocess.run(["kill", f"-{number}", str(self._server.pid)], check=True)

    def log(self) -> str:
        return self._server.log.read_text(errors="replace")

    def stop(self) -> str:
        """Stop it; return its log."""
        self._server.stop()
        return self.log()


@contextlib.contextmanager
def shadow(upstream: str, berth: str, *options, scheme: str = "http"):
    command = [find_berth(), "shadow", "--upstream", upstream, "--berth", berth, *options]
    admin = free_port()
    command += ["--admin-listen", f"127.0.0.1:{admin}"]
    listen = lambda port: ["--listen", f"127.0.0.1:{port}"]  # noqa: E731
    with running("shadow-proxy", command, listen, scheme=scheme) as server:
        yield Shadow(server, admin)


class Beside(unittest.TestCase):
    """The reference with a random cloud, and a Berth that was imported from its database."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.own = cls.enterClassContext(Berth())

    def setUp(self) -> None:
        self.name = self.id().rsplit(".", 1)[1]
        self.rng = random.Random(self.name)
        cluster = self.own._cluster
        cluster.create(self.name, "berth_template")
        self.addCleanup(cluster.drop, self.name)
        database = cluster.url(self.name)
        source = self.enterContext(sources.sqlite())
        self.reference = self.enterContext(Reference(source).start("shadow-reference"))
        self.fill()
        done = berth("import", "--from-database", source, "--database-url", database)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.berth = self.enterContext(serving("shadow-berth", database))
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def fill(self) -> None:
        asking = Asking(self.reference.url)
        self.cloud = Cloud(self.rng, asking)
        for _ in range(BUILDING):
            self.step(asking, building=True)
        self.assertGreater(len(self.cloud.providers), 3)

    def step(self, asking: Asking, building: bool = False) -> Answer:
        """One random request."""
        request = routes.any_request(self.cloud, building)
        answer = asking.ask(request)
        if request.method != "GET" and answer.status < 300:
            self.cloud.providers = differential.listed(asking)
        return answer

    def shadow(self, *options):
        return shadow(self.reference.url, self.berth.url, *options)

    def reads(self, count: int) -> list[Request]:
        found = []
        while len(found) < count:
            request = routes.any_request(self.cloud, building=False)
            if request.method == "GET":
                found.append(request)
        return found

    def all_there_is(self) -> list[Request]:
        """A read of everything, as differential.look_round makes it."""
        found = []

        class Noting:
            def ask(self, request: Request) -> None:
                found.append(request)

        differential.look_round(Noting(), self.cloud)
        return found

    def assert_only_known(self, summary: dict) -> None:
        self.assertEqual(summary["differences"], [])
        compared = summary["compared"]["read"]
        self.assertLessEqual(compared.keys(), {"same", "known"})
        self.assertEqual(sum(compared.values()), summary["mirrored"]["read"])

    def test_clients_get_the_references_answers_and_berth_gives_the_same(self) -> None:
        with self.shadow() as proxy:
            before = proxy.settled()
            requests = self.reads(READS) + self.all_there_is()
            for request in requests:
                response, direct = send(proxy.url, request), send(self.reference.url, request)
                self.assertEqual(response.status, direct.status)
                if b"request_id" not in direct.body:
                    self.assertEqual(response.body, direct.body)
                if direct.status == 204:
                    # The reference says that it has 0 bytes, which HTTP does not allow.
                    direct.headers.pop("content-length", None)
                self.assertEqual(response.headers.keys(), direct.headers.keys())
                for name in response.headers.keys() - OWN:
                    self.assertEqual(response.headers[name], direct.headers[name])
            summary = proxy.settled()
            self.assert_only_known(summary)
            mirrored = summary["mirrored"]["read"]
            self.assertEqual(summary["requests"]["read"], {"answered": len(requests) + 1})
            self.assertEqual(mirrored - before["mirrored"]["read"], len(requests))
            latencies = summary["latency_seconds"]["all"]
            self.assertEqual([latencies[it]["count"] for it in ("upstream", "berth")], [mirrored] * 2)
            metrics = proxy.admin("/metrics")
            self.assertIn('berth_shadow_mirrored_total{kind="read"} ', metrics)
            self.assertIn('berth_shadow_request_duration_seconds_bucket{service="berth",route=', metrics)
            self.assertIn("berth_shadow_mirror_on 1", metrics)

    def test_a_planted_difference_is_reported_and_nothing_else(self) -> None:
        planted = next(it for it in self.all_there_is() if it.path.endswith("/inventories"))
        uuid = planted.path.split("/")[2]
        inventories = send(self.berth.url, planted).json()
        total = self.rng.randrange(10_000, 20_000)
        inventories["inventories"]["VCPU"] = {"total": total}
        changed = Request("PUT", planted.path, "1.39", body=inventories)
        self.assertEqual(send(self.berth.url, changed).status, 200)
        file = self.folder / "differences"
        with self.shadow("--differences", file) as proxy:
            for request in self.all_there_is():
                send(proxy.url, request)
            summary = proxy.settled()
            self.assertEqual(summary["compared"]["read"].keys() - {"known"}, {"same", "different"})
            words = proxy.admin("/summary?format=words")
            stopped = proxy.stop()
        records = [json.loads(line) for line in file.read_text().splitlines()]
        records = [it for it in records if it["known"] is None]
        for record in records:
            about = record["target"] + json.dumps(record["differences"])
            self.assertIn(uuid, about)
            self.assertEqual((record["outcome"], record["confirmations"]), ("different", 2))
        there = [it for it in records if it["target"] == planted.path]
        self.assertEqual(len(there), 1)
        places = {it["place"]: it["berth"] for it in there[0]["differences"]}
        found = [it for it in places if it.startswith("body/inventories/VCPU")]
        self.assertTrue(found, places)
        self.assertIn(str(total), json.dumps(places))
        self.assertIn("differences (upstream / Berth)", words)
        self.assertIn(planted.path, words)
        # The end tells the same.
        self.assertIn(planted.path, stopped)
        self.assertEqual(len(records), sum(it["count"] for it in summary["differences"]))

    def test_mirrored_writes_keep_berth_equal(self) -> None:
        with self.shadow("--mirror-writes") as proxy:
            asking = Asking(proxy.url)
            for _ in range(WRITES):
                self.step(asking)
            # The reference chooses the UUID.
            for nth in range(5):
                body = {"name": f"without a UUID {nth}"}
                made = asking.ask(Request("POST", "/resource_providers", "1.39", body=body))
                self.assertEqual(made.status, 200)
            self.claims_at_once(proxy)
            self.cloud.providers = differential.listed(asking)
            summary = proxy.settled()
            self.assertGreater(summary["mirrored"]["write"], 100)
            self.assertEqual(summary["writes_lacking"], 0, summary)
            unknown = [it for it in summary["differences"] if "/allocation_candidates" not in it["route"]]
            self.assertEqual(unknown, [], summary)
        both = Comparing(self.reference.url, self.berth.url, differential.Tally(), "shadow")
        differential.look_round(both, self.cloud)
        self.assertEqual(both._tally.failures, collections.Counter())

    def claims_at_once(self, proxy: Shadow) -> None:
        """Several clients claim and release, each for consumers of its own, on a host of many units."""
        host = str(self.cloud.new_uuid())
        asking = Asking(proxy.url)
        asking.ask(Request("POST", "/resource_providers", "1.39", body={"name": "many", "uuid": host}))
        inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 6}}}
        put = Request("PUT", f"/resource_providers/{host}/inventories", "1.39", body=inventories)
        self.assertEqual(asking.ask(put).status, 200)

        def client(consumers: list[str]) -> list[int]:
            statuses = []
            for consumer in consumers:
                body = {"allocations": {host: {"resources": {"VCPU": 2}}}, "consumer_generation": None}
                body |= {"project_id": OWNERS[0], "user_id": OWNERS[0], "consumer_type": "INSTANCE"}
                path = f"/allocations/{consumer}"
                statuses.append(send(proxy.url, Request("PUT", path, "1.39", body=body)).status)
                if statuses[-1] == 204:
                    send(proxy.url, Request("DELETE", path, "1.39"))
            return statuses

        work = [[self.cloud.new_uuid() for _ in range(10)] for _ in range(4)]
        with concurrent.futures.ThreadPoolExecutor(len(work)) as pool:
            statuses = [status for found in pool.map(client, work) for status in found]
        self.assertLessEqual(set(statuses), {204, 409})

    def test_a_berth_that_hangs_or_dies_is_nothing_to_clients(self) -> None:
        with self.shadow("--queue", "5", "--workers", "1", "--berth-timeout", "1") as proxy:
            requests = self.all_there_is()

            def ask_all() -> None:
                for request in requests:
                    self.assertLess(send(proxy.url, request).status, 500)

            subprocess.run(["kill", "-STOP", str(self.berth.pid)], check=True)
            try:
                ask_all()
                lost = proxy.until(lambda it: "timeout" in it["not_mirrored"]["read"])["not_mirrored"]
                self.assertGreater(lost["read"]["queue_full"], 0)
            finally:
                subprocess.run(["kill", "-CONT", str(self.berth.pid)], check=True)
            self.berth.stop()
            ask_all()
            summary = proxy.settled()
            self.assertGreater(summary["not_mirrored"]["read"]["not_connected"], 0)
            self.assertEqual(summary["requests"]["read"], {"answered": 2 * len(requests) + 1})
            self.assertEqual(summary["differences"], [])

    def test_writes_wait_for_a_berth_that_is_away_for_a_while(self) -> None:
        with self.shadow("--mirror-writes", "--berth-timeout", "1") as proxy:
            asking = Asking(proxy.url)
            subprocess.run(["kill", "-STOP", str(self.berth.pid)], check=True)
            try:
                for nth in range(5):
                    body = {"name": f"while it was away {nth}"}
                    asking.ask(Request("POST", "/resource_providers", "1.39", body=body))
                time.sleep(1.5)
                self.assertEqual(proxy.summary()["pending"]["write"], 5)
            finally:
                subprocess.run(["kill", "-CONT", str(self.berth.pid)], check=True)
            summary = proxy.settled()
            self.assertEqual(summary["writes_lacking"], 0, summary)
        names = [
            {it["name"] for it in send(url, Request("GET", "/resource_providers", "1.39")).json()["resource_providers"]}
            for url in (self.reference.url, self.berth.url)
        ]
        self.assertEqual(names[0], names[1])

    def test_a_large_answer_is_compared(self) -> None:
        with self.shadow("--mirror-writes") as proxy:
            asking = Asking(proxy.url)
            for nth in range(300):
                uuid = self.cloud.new_uuid()
                made = {"name": f"host {nth}", "uuid": uuid}
                asking.ask(Request("POST", "/resource_providers", "1.39", body=made))
                body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
                path = f"/resource_providers/{uuid}/inventories"
                self.assertEqual(asking.ask(Request("PUT", path, "1.39", body=body)).status, 200)
            query = [("resources", "VCPU:1")]
            found = asking.ask(Request("GET", "/allocation_candidates", "1.39", query))
            self.assertGreaterEqual(len(found.json()["allocation_requests"]), 300)
            self.assertGreater(len(found.body), 80_000)
            summary = proxy.settled()
            self.assert_only_known(summary)
            self.assertEqual(summary["latency_seconds"]["/allocation_candidates"]["berth"]["count"], 1)

    def test_the_mirror_is_turned_off_and_on(self) -> None:
        with self.shadow("--mirror-writes") as proxy:
            traits = Request("GET", "/traits", "1.39")

            def mirrored() -> int:
                self.assertEqual(send(proxy.url, traits).status, 200)
                return proxy.settled()["mirrored"]["read"]

            before = mirrored()
            self.assertEqual(proxy.admin("/mirror/off", "POST"), "the mirror is off\n")
            self.assertEqual(mirrored(), before)
            send(proxy.url, Request("PUT", "/traits/CUSTOM_WHILE_OFF", "1.39"))
            summary = proxy.settled()
            self.assertEqual((summary["mirror"], summary["writes_lacking"]), ("off", 1))
            lost = summary["not_mirrored"]
            self.assertEqual((lost["read"]["off"], lost["write"]), (1, {"off": 1}))
            proxy.signal(signal.SIGUSR2)
            proxy.until(lambda it: it["mirror"] == "on")
            self.assertEqual(mirrored(), before + 1)
            # What Berth lacks now is a difference.
            proxy.until(lambda it: it["differences"] != [])
            proxy.signal(signal.SIGUSR1)
            deadline = time.monotonic() + PATIENCE
            while "Berth lacks 1 writes" not in proxy.log():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            self.assertEqual(proxy.admin("/healthz"), "ok\n")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                proxy.admin("/mirror/off")
            self.assertEqual(refused.exception.code, 405)

    def test_tokens_are_written_nowhere(self) -> None:
        file = self.folder / "differences"
        options = ["--log", "trace", "--differences", file, "--mirror-writes"]
        with self.shadow(*options) as proxy:
            send(self.berth.url, Request("PUT", "/traits/CUSTOM_ONLY_HERE", "1.39"))
            for method, path in [("GET", "/traits"), ("PUT", "/traits/CUSTOM_BOTH"), ("GET", "/nowhere")]:
                headers = {"X-Auth-Token": "s3cr3t-user:s3cr3t-project", "X-Service-Token": "s3cr3t"}
                send(proxy.url, Request(method, path, "1.39", headers=headers))
                send(proxy.url, Request(method, path, "1.39", headers={"X-Service-Token": "s3cr3t"}))
            proxy.until(lambda it: it["differences"] != [])
            summary = proxy.admin("/summary") + proxy.admin("/metrics")
            log = proxy.stop()
        self.assertNotIn("s3cr3t", log + summary + file.read_text())


def certificates(folder: pathlib.Path) -> tuple[pathlib.Path, tuple]:
    """An authority, and the files of a certificate of its for this machine with the key."""
    authority, key, request, certificate = (folder / it for it in ("ca.pem", "key.pem", "request", "cert.pem"))
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch"]
    for command in (
        [*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", folder / "ca.key", "-out", authority],
        [*new, "-subj", "/CN=localhost", "-keyout", key, "-out", request],
        ["x509", "-req", "-in", request, "-CA", authority, "-CAkey", folder / "ca.key", "-CAcreateserial",
         "-days", "2", "-extfile", extensions, "-out", certificate],
    ):  # fmt: skip
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
    return authority, (certificate, key)


class Alone(unittest.TestCase):
    """The proxy in front of a service that does what the reference does not."""

    def setUp(self) -> None:
        self.upstream, self.berth = (self.enterContext(stub.serving()) for _ in range(2))

    def shadow(self, *options) -> Shadow:
        return self.enterContext(shadow(self.upstream.url, self.berth.url, *options))

    def connection(self, proxy: Shadow) -> http.client.HTTPConnection:
        where = urllib.parse.urlsplit(proxy.url)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def raw(self, proxy: Shadow, request: bytes, is_last: bool = False) -> bytes:
        """All that comes back on a connection, perhaps after the end of what is sent."""
        where = urllib.parse.urlsplit(proxy.url)
        with socket.create_connection((where.hostname, where.port), timeout=PATIENCE) as connection:
            connection.sendall(request)
            if is_last:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(65536):
                answer += part
            return answer

    def test_bodies_and_methods_pass_on_one_connection(self) -> None:
        proxy = self.shadow()
        connection = self.connection(proxy)
        megabyte = random.Random(1).randbytes(1 << 20)
        for body, chunked in [(b"{}", False), (megabyte, False), (megabyte, True)]:
            for method in ("PUT", "POST", "GET"):
                parts = (megabyte[at : at + 70_000] for at in range(0, len(body), 70_000)) if chunked else body
                connection.request(method, "/echo", parts, encode_chunked=chunked)
                answer = connection.getresponse()
                self.assertEqual((answer.status, answer.read()), (200, body))
        for method in ("HEAD", "OPTIONS", "DELETE"):
            connection.request(method, "/usages?a=%2f&b='|")
            answer = connection.getresponse()
            expected = b"" if method == "HEAD" else self.upstream.text
            self.assertEqual((answer.status, answer.reason, answer.read()), (200, "As Told", expected))
            self.assertEqual(answer.getheader("Content-Length"), str(len(self.upstream.text)))
            self.assertEqual(self.upstream.requests[-1][:2], (method, "/usages?a=%2f&b='|"))
        summary = proxy.settled(forwarded=3)
        self.assertEqual(summary["compared"]["read"].get("different", 0), 0, summary)
        self.assertEqual(summary["requests"]["write"], {"accepted": 7})

    def test_headers_pass_as_they_are_but_those_of_the_connection(self) -> None:
        proxy = self.shadow()
        self.upstream.headers = [("X-Twice", "a"), ("X-Twice", "b"), ("x-lOWER", "1"), ("Keep-Alive", "timeout=9")]
        request = b"GET /usages HTTP/1.1\r\nHost: placement.example:1\r\nX-oDD: 1\r\nX-Auth-Token: t\r\n"
        request += b"Connection: close, X-Hop\r\nX-Hop: 2\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
        response = self.raw(proxy, request)
        head, _, body = response.partition(b"\r\n\r\n")
        self.assertEqual(body, self.upstream.text)
        lines = head.decode().split("\r\n")
        self.assertEqual(lines[0], "HTTP/1.1 200 As Told")
        expected = ["Content-Type: application/json", f"Content-Length: {len(body)}", "X-Twice: a", "X-Twice: b", "x-lOWER: 1"]
        self.assertEqual(sorted(it for it in lines[1:] if not it.lower().startswith("connection")), sorted(expected))
        sent = [it for it in self.upstream.requests if ("X-oDD", "1") in it[2]][0][2]
        self.assertEqual(
            sorted(sent),
            [("Host", "placement.example:1"), ("X-Auth-Token", "t"), ("X-Forwarded-For", "192.0.2.1"), ("X-oDD", "1")],
        )
        proxy.settled()
        mirrored = [it for it in self.berth.requests if ("x-odd", "1") in it[2]][0][2]
        self.assertEqual(sorted((name.lower(), value) for name, value in sent), sorted(mirrored))

    def test_a_client_that_sends_nothing_more_is_answered(self) -> None:
        proxy = self.shadow()
        for body in (b"{}", b"x" * 100_000):
            head = b"PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            response = self.raw(proxy, 2 * (head + body), is_last=True)
            self.assertEqual(response.count(b"HTTP/1.1 200 As Told\r\n"), 2, response)
            self.assertTrue(response.endswith(body), response)

    def test_a_request_whose_end_is_not_clear_is_refused(self) -> None:
        proxy = self.shadow("--mirror-writes")
        chunks = b"2\r\n{}\r\n0\r\n\r\nPUT /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
        for headers in (
            b"Content-Length: %d\r\nTransfer-Encoding: chunked" % len(chunks),
            b"Transfer-Encoding: chunked\r\nContent-Length: 0",
            b"Transfer-Encoding: gzip, chunked",
            b"Transfer-Encoding: chunked, chunked",
            b"Transfer-Encoding: identity, chunked",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ):
            response = self.raw(proxy, b"PUT /echo HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s" % (headers, chunks))
            self.assertTrue(response.startswith(b"HTTP/1.1 400 "), response)
            self.assertEqual(response.count(b"HTTP/1.1 "), 1, response)
            self.assertEqual(json.loads(response.partition(b"\r\n\r\n")[2])["errors"][0]["status"], 400)
        self.assertEqual([it for it in self.upstream.requests if it[0] == "PUT"], [])

    def test_an_upstream_that_is_away_is_a_502_and_one_that_is_slow_a_504(self) -> None:
        proxy = self.shadow("--upstream-timeout", "1")
        self.upstream.slow = 3
        connection = self.connection(proxy)

        def refusal(method: str, path: str) -> tuple[int, str]:
            connection.request(method, path)
            answer = connection.getresponse()
            self.assertEqual(answer.getheader("Content-Type"), "application/json")
            return answer.status, json.loads(answer.read())["errors"][0]["detail"]

        status, words = refusal("GET", "/slow")
        self.assertEqual(status, 504)
        self.assertIn("did not respond in time", words)
        for method in ("GET", "PUT"):
            status, words = refusal(method, "/hang-up")
            self.assertEqual(status, 502)
            self.assertIn("closed the connection without a response", words)
        self.upstream.shutdown()
        self.upstream.server_close()
        time.sleep(1.5)
        for method in ("GET", "PUT"):
            status, words = refusal(method, "/usages")
            self.assertEqual(status, 502)
            self.assertIn("cannot be reached", words)
        counts = proxy.summary()["requests"]
        self.assertEqual(counts["read"], {"answered": 1, "timeout": 1, "broken": 1, "not_connected": 1})
        self.assertEqual(counts["write"], {"broken": 1, "not_connected": 1})

    def test_a_write_that_the_upstream_fails_at_may_be_lacking(self) -> None:
        proxy = self.shadow("--mirror-writes")
        connection = self.connection(proxy)
        for status in (500, 503, 409):
            self.upstream.status = status
            connection.request("PUT", "/traits/CUSTOM_A")
            answer = connection.getresponse()
            answer.read()
            self.assertEqual(answer.status, status)
        summary = proxy.settled()
        self.assertEqual(summary["requests"]["write"], {"failed": 2, "refused": 1})
        self.assertEqual(summary["not_mirrored"]["write"], {"upstream_failed": 2})
        self.assertEqual((summary["writes_lacking"], summary["writes_perhaps_lacking"]), (0, 2))
        self.assertEqual([it for it in self.berth.requests if it[0] == "PUT"], [])

    def test_a_connection_that_the_upstream_closes_is_no_failure(self) -> None:
        proxy = self.shadow()
        connection = self.connection(proxy)
        for nth in range(20):
            self.upstream.headers = [("Connection", "close")] if nth % 2 else []
            connection.request("GET", "/usages")
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()), (200, self.upstream.text))

    def test_tls_to_clients_and_to_both_services(self) -> None:
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        authority, files = certificates(folder)
        services = [self.enterContext(stub.serving(tls=files)).url for _ in range(2)]
        trusting = ssl.create_default_context(cafile=authority)

        def status(url: str) -> int:
            try:
                with urllib.request.urlopen(f"{url}/usages", context=trusting, timeout=PATIENCE) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        options = ["--ca-file", authority, "--tls-cert", files[0], "--tls-key", files[1]]
        with shadow(*services, *options, scheme="https") as proxy:
            self.assertEqual(status(proxy.url), 200)
            self.assertGreater(proxy.settled()["compared"]["read"]["same"], 0)
        with shadow(self.upstream.url, services[1]) as proxy:
            send(proxy.url, Request("GET", "/usages"))
            proxy.until(lambda it: "not_connected" in it["not_mirrored"]["read"])

    def test_a_body_that_is_too_long_is_passed_on_only(self) -> None:
        proxy = self.shadow("--answer-max", "1", "--memory", "1")
        connection = self.connection(proxy)
        for size in (40 << 20, 900_000):
            connection.request("GET", f"/large/{size}")
            answer = connection.getresponse()
            self.assertEqual(len(answer.read()), size)
        summary = proxy.settled()
        lost = summary["not_mirrored"]["read"]
        # Both answers to the second request together are more than the memory for all.
        self.assertEqual((lost["too_long"], lost["memory"]), (1, 1))

    def test_a_difference_that_goes_away_is_not_one(self) -> None:
        proxy = self.shadow()
        connection = self.connection(proxy)
        self.upstream.text = b'{"usages": {"VCPU": 1}}'
        connection.request("GET", "/usages")
        connection.getresponse().read()
        self.berth.text = self.upstream.text
        summary = proxy.settled()
        compared = summary["compared"]["read"]
        self.assertEqual(compared.keys() - {"same"}, {"changing"} if "changing" in compared else set())
        self.assertEqual(summary["differences"], [])
        # One that stays is.
        self.berth.text = b'{"usages": {"VCPU": 2}}'
        connection.request("GET", "/usages")
        connection.getresponse().read()
        found = proxy.settled()["differences"]
        self.assertEqual([(it["route"], it["place"], it["count"]) for it in found], [("GET /usages", "body/usages/VCPU", 1)])

    def test_wrong_options_are_refused(self) -> None:
        for options, why in [
            (["--upstream", "old:8778", "--berth", "http://new"], "must begin with http:// or https://"),
            (["--upstream", "http://u:p@old", "--berth", "http://new"], "must not contain a user"),
            (["--upstream", "http://old", "--berth", "http://old/"], "are the same service"),
            (["--upstream", "http://old", "--berth", "http://new", "--queue", "0"], "must be a number"),
            (["--upstream", "http://old", "--berth", "http://new", "--differences", "/no/such/file"], "No such file"),
            (["--upstream", "https://old", "--berth", "http://new", "--ca-file", "/dev/null"], "--ca-file"),
        ]:
            command = [str(find_berth()), "shadow", *options]
            done = subprocess.run(command, capture_output=True, text=True, env=_environment(), timeout=PATIENCE)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(why, done.stderr)


def measure(seconds: int) -> int:
    """What the proxy costs clients, in one run: wrk directly at the upstream, and through the proxy."""
    print(f"{'upstream':<12}{'clients':>8}{'':>22}{'requests/s':>12}{'ratio':>8}{'p50 ms':>9}{'p99 ms':>9}")
    with Berth() as own, own.start("shadow-measure") as fast, own.start("shadow-measured") as berth:
        with Reference().start("shadow-measure-reference") as slow:
            for name, upstream in [("reference", slow), ("a Berth", fast)]:
                with shadow(upstream.url, berth.url, "--mirror-writes") as proxy:
                    for nth in range(20):
                        made = Request("POST", "/resource_providers", "1.39", body={"name": f"{name} {nth}"})
                        send(proxy.url, made)
                    proxy.settled()
                    for clients in (1, 8):
                        first = load(upstream.url, clients, seconds)
                        rows = [("directly", first)]
                        proxy.admin("/mirror/off", "POST")
                        rows.append(("proxy, mirror off", load(proxy.url, clients, seconds)))
                        proxy.admin("/mirror/on", "POST")
                        rows.append(("proxy, mirror on", load(proxy.url, clients, seconds)))
                        for how, (rate, p50, p99) in rows:
                            print(
                                f"{name:<12}{clients:>8}{how:>22}{rate:>12.0f}{rate / first[0]:>8.2f}{p50:>9.2f}{p99:>9.2f}",
                                flush=True,
                            )
                    print(proxy.admin("/summary?format=words"))
    return 0


def load(url: str, clients: int, seconds: int) -> tuple[float, float, float]:
    """Requests a second, and milliseconds of the median and the slowest hundredth."""
    script = pathlib.Path(tempfile.gettempdir()) / "shadow-measure.lua"
    script.write_text(
        "done = function(summary, latency, requests)\n"
        "  print(string.format('FIGURES %f %f %f', summary.requests / summary.duration * 1e6,"
        " latency:percentile(50) / 1000, latency:percentile(99) / 1000))\nend\n"
    )
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}", "-s", script, "-H", "X-Auth-Token: admin"]
    command += ["-H", "OpenStack-API-Version: placement 1.39", f"{url}/resource_providers"]
    done = subprocess.run([str(it) for it in command], capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("FIGURES"))
    rate, p50, p99 = (float(it) for it in line.split()[1:])
    return rate, p50, p99


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/shadow/run",
        description="Puts `berth shadow` in front of OpenStack Placement, and compares Berth with it.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    suites.add_option(parser)
    parser.add_argument(
        "--measure", type=int, metavar="SECONDS",
        help="measure instead what the proxy costs clients, by wrk for so long each",
    )  # fmt: skip
    chosen = parser.parse_args()
    if chosen.measure:
        return measure(chosen.measure)
    return suites.run([sys.modules["__main__"]], chosen.k)


if __name__ == "__main__":
    sys.exit(main())
