"""What nova's client does when it is refused, and when it has to wait: why docs/moving.md holds writes in HAProxy."""

import http.server
import json
import pathlib
import tempfile
import threading
import time
import unittest

import requests
from nova import config, context, objects
from nova.scheduler.client.report import SchedulerReportClient
from stage import Balancer, until

from journal import PROJECT, USER, provider_uuid  # isort: skip

VERSIONS = {
    "id": "v1.0", "min_version": "1.0", "max_version": "1.39", "status": "CURRENT",
    "links": [{"rel": "self", "href": ""}],
}  # fmt: skip
CONFIGURATION = """
[DEFAULT]
state_path = {folder}
[placement]
auth_type = none
endpoint_override = {url}
"""
# Longer than HAProxy's `timeout client` is set here, and than nova's own pauses.
HELD_SECONDS = 5


class Answering(http.server.BaseHTTPRequestHandler):
    """A service that accepts any claim."""

    def do_GET(self) -> None:
        body = {"versions": [VERSIONS]} if self.path == "/" else {"allocations": {}}
        self.answer(200, json.dumps(body).encode())

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.seconds)
        self.server.claims += 1
        self.answer(204, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


class Holding(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="holding-")))
        cls.servers = [cls.serve(), cls.serve()]
        ports = [it.server_address[1] for it in cls.servers]
        cls.balancer = cls.enterClassContext(Balancer(folder, *ports, ("timeout client 60s", "timeout client 2s")))
        (folder / "nova.conf").write_text(CONFIGURATION.format(folder=folder, url=cls.balancer.url))
        config.parse_args(
            ["nova", "--config-file", str(folder / "nova.conf")],
            default_config_files=[], configure_db=False, init_rpc=False,
        )  # fmt: skip
        objects.register_all()
        cls.client = SchedulerReportClient()

    @classmethod
    def serve(cls) -> http.server.ThreadingHTTPServer:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        # Seconds that a claim takes.
        server.claims = server.seconds = 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def setUp(self) -> None:
        for backend in ("reads", "writes"):
            self.balancer.tell(f"set server placement-{backend}/old state ready; "
                               f"set server placement-{backend}/berth state maint")  # fmt: skip
        self.balancer.tell("set server placement-writes/waiting state maint")
        for server in self.servers:
            server.claims = server.seconds = 0
        self.assertTrue(self.claim("before"))

    def claim(self, name: str) -> bool:
        wanted = {"allocations": {provider_uuid("host"): {"resources": {"VCPU": 1}}}}
        admin = context.get_admin_context()
        return self.client.claim_resources(admin, provider_uuid(name), wanted, PROJECT, USER, "1.36")

    def test_a_backend_without_a_server_refuses_and_nova_does_not_try_again(self) -> None:
        self.balancer.tell("set server placement-writes/old state maint")
        sent = []
        original = requests.Session.send
        self.addCleanup(setattr, requests.Session, "send", original)

        def send(session, request, **more):
            answer = original(session, request, **more)
            sent.append((request.method, answer.status_code))
            return answer

        requests.Session.send = send
        # It reads the body as JSON, which HAProxy's is not.
        with self.assertRaises(ValueError):
            self.claim("refused")
        self.assertEqual(sent, [("GET", 200), ("PUT", 503)])

    def test_nova_waits_for_writes_that_are_held_and_each_is_sent_once(self) -> None:
        self.balancer.hold_writes("old")
        claimed = []
        claiming = threading.Thread(target=lambda: claimed.append(self.claim("held")))
        began = time.monotonic()
        claiming.start()
        time.sleep(HELD_SECONDS)
        self.assertEqual((claimed, self.servers[0].claims), ([], 1))
        self.balancer.switch("old", "berth")
        claiming.join()
        self.assertEqual(claimed, [True])
        self.assertGreaterEqual(time.monotonic() - began, HELD_SECONDS)
        self.assertEqual([it.claims for it in self.servers], [1, 1])
        self.assertTrue(self.claim("after"))

    def test_writes_that_are_under_way_are_waited_for(self) -> None:
        self.servers[0].seconds = 2
        claiming = threading.Thread(target=self.claim, args=("under way",))
        claiming.start()
        until("the claim has reached the old service", lambda: self.balancer.under_way("old") == 1)
        self.assertEqual(self.servers[0].claims, 1)
        self.balancer.hold_writes("old")
        self.assertEqual(self.servers[0].claims, 2)
        claiming.join()

    def test_writes_that_were_held_can_be_released_to_where_they_came_from(self) -> None:
        self.balancer.hold_writes("old")
        self.balancer.release_writes("old")
        self.assertTrue(self.claim("released"))
        self.assertEqual([it.claims for it in self.servers], [2, 0])
