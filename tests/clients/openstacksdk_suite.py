"""openstacksdk's own functional suite for placement, as published.

It wants a cloud: a clouds.yaml, and a Keystone that gives tokens with a project, a
user and a catalogue. The Keystone here gives everybody the token of noauth2's admin,
and its catalogue has the running server alone; the suite, the SDK and the plugin that
asks for the token are the published ones. It also relies on what there is in a new
devstack: a host, and an instance of the caller's project.
"""

import http.server
import json
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import urllib.request
import uuid

TOKEN = "admin"
# The clouds that the suite takes when it is told nothing else.
CLOUDS = ("devstack", "devstack-alt", "devstack-admin", "devstack-system-admin")
FOLDER = "openstack.tests.functional.placement"


class Keystone(http.server.BaseHTTPRequestHandler):
    """As much of Keystone as a client needs to come to the server under test."""

    placement = ""

    def do_GET(self) -> None:
        version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": self._url("/v3")}]}
        found = {"version": version} if self.path.startswith("/v3") else {"versions": {"values": [version]}}
        self._answer(200, found)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        domain = {"id": "default", "name": "Default"}
        endpoint = {
            "id": "placement", "interface": "public", "url": self.placement,
            "region": "here", "region_id": "here",
        }  # fmt: skip
        token = {
            "methods": ["password"],
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "expires_at": "2100-01-01T00:00:00.000000Z",
            "user": {"id": "admin", "name": "admin", "domain": domain},
            "project": {"id": "admin", "name": "admin", "domain": domain},
            "roles": [{"id": "admin", "name": "admin"}],
            "catalog": [{"id": "placement", "type": "placement", "name": "placement", "endpoints": [endpoint]}],
        }
        self._answer(201, {"token": token}, {"X-Subject-Token": TOKEN})

    def _url(self, path: str) -> str:
        host, port = self.server.server_address[:2]
        return f"http://{host}:{port}{path}"

    def _answer(self, status: int, body: dict, headers: dict = {}) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(text), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format, *arguments) -> None:
        pass


def furnish(server: str) -> None:
    """Makes the host and the instance."""
    host, instance = str(uuid.uuid4()), str(uuid.uuid4())
    held = {
        "allocations": {host: {"resources": {"VCPU": 1}}}, "consumer_generation": None,
        "consumer_type": "INSTANCE", "project_id": "admin", "user_id": "admin",
    }  # fmt: skip
    for method, path, body in (
        ("POST", "/resource_providers", {"name": "devstack", "uuid": host}),
        (
            "PUT", f"/resource_providers/{host}/inventories",
            {"inventories": {"VCPU": {"total": 8}}, "resource_provider_generation": 0},
        ),
        ("PUT", f"/allocations/{instance}", held),
    ):  # fmt: skip
        headers = {
            "Content-Type": "application/json", "X-Auth-Token": TOKEN,
            "OpenStack-API-Version": "placement 1.39",
        }  # fmt: skip
        request = urllib.request.Request(server + path, json.dumps(body).encode(), headers, method=method)
        urllib.request.urlopen(request, timeout=30).close()


# Kept until this process ends.
_folder = tempfile.TemporaryDirectory(prefix="clouds-")


def tests(server: str) -> unittest.TestSuite:
    """All tests of the suite, to be run against the server at that URL."""
    for variable in [name for name in os.environ if name.startswith(("OS_", "OPENSTACKSDK_"))]:
        del os.environ[variable]
    furnish(server)
    Keystone.placement = server
    keystone = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keystone)
    threading.Thread(target=keystone.serve_forever, daemon=True).start()
    auth = {
        "auth_url": f"http://127.0.0.1:{keystone.server_address[1]}/v3",
        "username": "admin", "password": "unused", "project_name": "admin",
        "user_domain_id": "default", "project_domain_id": "default",
    }  # fmt: skip
    cloud = {"auth": auth, "region_name": "here", "identity_api_version": "3"}
    file = pathlib.Path(_folder.name) / "clouds.json"
    file.write_text(json.dumps({"clouds": {name: cloud for name in CLOUDS}}))
    os.environ["OS_CLIENT_CONFIG_FILE"] = str(file)
    os.environ["OS_LOG_CAPTURE"] = "1"
    # The suite's own bound of 5 s is for machines that do nothing else.
    os.environ["OS_TEST_TIMEOUT"] = "120"
    # It reads the clouds when it is imported, so not before now.
    loaded = unittest.TestLoader()
    __import__(f"{FOLDER}.v1")
    folder = pathlib.Path(sys.modules[f"{FOLDER}.v1"].__file__).parent
    names = sorted(f"{FOLDER}.v1.{path.stem}" for path in folder.glob("test_*.py"))
    if not names:
        raise RuntimeError(f"there are no tests in {folder}")
    return loaded.loadTestsFromNames(names)
