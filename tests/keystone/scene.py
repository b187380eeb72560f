"""What the tests are played on: Keystone with its people, a gate, and servers."""

import contextlib
import functools
import pathlib
import unittest

from exchange import Answer, ask
from gate import Gate
from identity import REGION, Keystone
from people import People
from placements import Berth, Reference
from tls import Authority

# Where those who are turned away are told to go; nothing is there.
PUBLIC_KEYSTONE = "https://keystone.example.org/identity"
# What the catalog calls the part of the world whose Keystone is behind the gate.
GATED_REGION = "Gated"
# Seconds that an answer about a token is kept where it is not to be kept for long.
SHORT_CACHE = 2
# The timeout for Keystone where a test is about it, and elsewhere: a busy machine is no outage.
TIMEOUT_SECONDS = 2
AMPLE_SECONDS = 30


class Scene:
    """All of it. Servers are started when they are first asked for, and stay."""

    def __init__(
        self,
        keystone: Keystone,
        source: Berth | Reference,
        stack: contextlib.ExitStack,
        folder: pathlib.Path,
    ) -> None:
        self.keystone = keystone
        self.people = People(keystone)
        self.source = source
        self.folder = folder
        self.against_reference = isinstance(source, Reference)
        self.gate = stack.enter_context(Gate(keystone.url))
        self.people.endpoints("identity", GATED_REGION, f"{self.gate.url}/v3")
        # Certificate and key of the server that speaks TLS, in files.
        self.tls_authority: Authority | None = None
        self.tls_files: tuple[pathlib.Path, pathlib.Path] | None = None
        self._stack = stack
        self._reference = source if self.against_reference else Reference()
        self._servers = {}

    def server(self, name: str, reference: bool = False):
        """A server by the name of its options, below: the one under test, or the reference."""
        reference = reference or self.against_reference
        key = ("reference" if reference else "berth", name)
        if key not in self._servers:
            source = self._reference if reference else self.source
            started = source.start(f"{key[0]}-{name}", **getattr(self, f"_{name}")())
            self._servers[key] = self._stack.enter_context(started)
        return self._servers[key]

    def credentials(self) -> dict:
        """Options that let a server ask Keystone with a user's password."""
        return {
            "keystone_auth_url": self.keystone.url,
            "keystone_region_name": REGION,
            "keystone_username": "berth",
            "keystone_user_domain_name": "Default",
            "keystone_password": self.people.passwords["berth"],
            "keystone_project_name": "service",
            "keystone_project_domain_name": "Default",
        }

    def gated(self) -> dict:
        """The same, with Keystone behind the gate."""
        return self.credentials() | {
            "keystone_auth_url": self.gate.url,
            "keystone_region_name": GATED_REGION,
            "keystone_timeout": AMPLE_SECONDS,
        }

    def all_stand(self) -> list[str]:
        """What stopped that should not have."""
        return [server.tail() for server in self._servers.values() if not server.is_running()]

    def _gated(self) -> dict:
        return self.gated() | {"keystone_timeout": TIMEOUT_SECONDS}

    def _present(self) -> dict:
        return self.credentials() | {
            "enforce_new_defaults": True, "keystone_www_authenticate_uri": PUBLIC_KEYSTONE,
        }  # fmt: skip

    def _before(self) -> dict:
        """The defaults before; and everything about tokens other than by default."""
        id, secret = self.people.credential("berth", "service")
        return {
            "enforce_new_defaults": False,
            "keystone_auth_url": f"{self.keystone.url}/v3/",
            "keystone_application_credential_id": id,
            "keystone_application_credential_secret": secret,
            "keystone_www_authenticate_uri": PUBLIC_KEYSTONE,
            "keystone_token_cache_time": SHORT_CACHE,
            "keystone_service_token_roles": "other",
            "keystone_service_token_roles_required": False,
        }

    def _catalogued(self) -> dict:
        """As in the catalog; the reference knows no prefixes."""
        return self.credentials() | ({} if self.against_reference else {"path_prefix": "/placement"})

    def _console(self) -> dict:
        return self.credentials() | {"ui": True}

    def _encrypted(self) -> dict:
        certificate, key = self.tls_files
        return self.credentials() | {"tls_cert": str(certificate), "tls_key": str(key)}


class Case(unittest.TestCase):
    """A test, and what it is played on."""

    scene: Scene
    maxDiff = None

    @property
    def people(self) -> People:
        return self.scene.people

    @property
    def keystone(self) -> Keystone:
        return self.scene.keystone

    def ask(self, path: str, token: str | bytes | None = None, server: str = "present", **more) -> Answer:
        """The answer of the server under test. The reference's must be the same to a client."""
        answer = ask(self.scene.server(server).url + path, token=token, **more)
        if not self.scene.against_reference:
            theirs = ask(self.scene.server(server, reference=True).url + path, token=token, **more)
            self.assertEqual(as_a_client_sees(theirs), as_a_client_sees(answer), f"{path} {more}")
        return answer


def beyond_the_reference(why: str):
    """A test of what the reference does not do."""

    def decorate(test):
        @functools.wraps(test)
        def skipping(self):
            if self.scene.against_reference:
                self.skipTest(why)
            test(self)

        return skipping

    return decorate


def as_a_client_sees(answer: Answer) -> dict:
    """What a client looks at of an answer. Of a body it is read only if it says what is wrong."""
    seen = {"status": answer.status, "type": answer.headers.get_content_type()}
    # `Vary` is among the differences that docs/differences.md lists.
    for header in ("WWW-Authenticate", "OpenStack-API-Version"):
        seen[header] = answer.headers[header]
    seen["has a request id"] = "X-OpenStack-Request-Id" in answer.headers
    if answer.status >= 400:
        seen["body"] = answer.json()
        for error in seen["body"].get("errors", []):
            error.pop("request_id", None)
    return seen
