"""Real clients find the service by the catalog, and do what nova and operators do."""

import json
import os
import subprocess
import unittest
import uuid

from keystoneauth1 import adapter, exceptions, identity, session

from identity import REGION
from scene import Case
from tls import Authority

PREFIXED_REGION = "Prefixed"
TLS_REGION = "Encrypted"
PREFIX = "/placement"
TRAIT = "HW_CPU_X86_AVX2"


class Client(Case):
    """With a server in the catalog: in the one region at its root, in the other below a prefix."""

    region = REGION
    certificates: str | None = None

    @classmethod
    def setUpClass(cls):
        if cls.region == PREFIXED_REGION and cls.scene.against_reference:
            raise unittest.SkipTest("the reference leaves prefixes to what is in front of it")
        cls.server = cls.start()
        prefix = PREFIX if cls.region == PREFIXED_REGION else ""
        cls.scene.people.endpoints("placement", cls.region, cls.server.url + prefix)

    @classmethod
    def start(cls):
        return cls.scene.server("catalogued")

    def account(self, user: str, of: str) -> dict:
        """What somebody needs to get a token."""
        return {
            "auth_url": f"{self.keystone.url}/v3", "username": user,
            "password": self.people.passwords[user], "project_name": of,
            "user_domain_id": "default", "project_domain_id": "default",
        }  # fmt: skip

    def adapter(self, user: str = "nova", of: str = "service", **more) -> adapter.Adapter:
        auth = identity.V3Password(**self.account(user, of))
        asking = session.Session(auth=auth, verify=self.certificates or True)
        more = {"default_microversion": "1.39", "raise_exc": True} | more
        return adapter.Adapter(asking, service_type="placement", region_name=self.region, **more)


class Keystoneauth(Client):
    """The library that all OpenStack clients ask with."""

    def test_discovery(self):
        for interface in ("public", "internal", "admin"):
            found = self.adapter(interface=interface).get_endpoint_data()
            self.assertEqual((1, 0), found.min_microversion)
            self.assertEqual((1, 39), found.max_microversion)
            self.assertEqual((1, 0), found.api_version)
            self.assertTrue(found.url.startswith(self.server.url), found.url)

    def test_a_server_is_placed(self):
        client, provider, consumer = self.adapter(), str(uuid.uuid4()), str(uuid.uuid4())
        made = client.post("/resource_providers", json={"name": provider, "uuid": provider})
        self.assertEqual(0, made.json()["generation"])
        inventories = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096}}
        client.put(f"/resource_providers/{provider}/inventories",
                   json={"inventories": inventories, "resource_provider_generation": 0})
        client.put(f"/resource_providers/{provider}/traits",
                   json={"traits": [TRAIT], "resource_provider_generation": 1})
        found = client.get(f"/allocation_candidates?resources=VCPU:2,MEMORY_MB:512&required={TRAIT}").json()
        self.assertIn(provider, found["provider_summaries"])
        claim = {
            "allocations": {provider: {"resources": {"VCPU": 2, "MEMORY_MB": 512}}},
            "consumer_generation": None, "consumer_type": "INSTANCE", "mappings": {"": [provider]},
            "project_id": self.people.projects["demo"], "user_id": self.people.users["reader"],
        }
        self.assertEqual(204, client.put(f"/allocations/{consumer}", json=claim).status_code)
        kept = client.get(f"/allocations/{consumer}").json()["allocations"]
        self.assertEqual({"VCPU": 2, "MEMORY_MB": 512}, kept[provider]["resources"])
        usages = f"/usages?project_id={self.people.projects['demo']}"
        used = self.adapter("reader", "demo").get(usages).json()["usages"]
        self.assertEqual(2, used["INSTANCE"]["VCPU"])
        self.assertEqual(204, client.delete(f"/allocations/{consumer}").status_code)
        self.assertEqual(204, client.delete(f"/resource_providers/{provider}").status_code)  # fmt: skip

    def test_a_reader_is_refused(self):
        with self.assertRaises(exceptions.Forbidden):
            self.adapter("reader", "demo").get("/resource_providers")

    def test_a_token_that_is_turned_away_is_renewed(self):
        client = self.adapter("operator", "admin")
        client.get("/traits")
        # Not used with the server yet, so not remembered as good.
        client.session.auth.invalidate()
        self.keystone.revoke(client.session.get_token())
        self.assertEqual(200, client.get("/traits").status_code)

    def test_a_version_that_is_too_new(self):
        with self.assertRaises(exceptions.NotAcceptable):
            self.adapter().get("/traits", microversion="1.99")


class CommandLine(Client):
    """`openstack`, with osc-placement."""

    def openstack(self, *arguments: str, user: str = "nova", of: str = "service", expected: int = 0):
        """What it prints: the JSON, or what went wrong if that is expected."""
        account = {f"OS_{name.upper()}": value for name, value in self.account(user, of).items()}
        account |= {"OS_REGION_NAME": self.region, "OS_PLACEMENT_API_VERSION": "1.39"}
        account |= {"OS_CACERT": self.certificates} if self.certificates else {}
        inherited = {name: os.environ[name] for name in ("PATH", "NO_PROXY", "HOME") if name in os.environ}
        command = ["openstack", *arguments] + ([] if expected else ["-f", "json"])
        done = subprocess.run(command, env=inherited | account, capture_output=True, text=True, timeout=60)
        self.assertEqual(expected, done.returncode, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}")
        if expected:
            return done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def test_a_server_is_placed(self):
        name, consumer = f"host-{uuid.uuid4()}", str(uuid.uuid4())
        provider = self.openstack("resource", "provider", "create", name)["uuid"]
        set_inventory = ["resource", "provider", "inventory", "set", provider]
        listed = self.openstack(*set_inventory, "--resource", "VCPU=8", "--resource", "MEMORY_MB=4096")
        self.assertEqual({"VCPU", "MEMORY_MB"}, {row["resource_class"] for row in listed})
        listed = self.openstack("resource", "provider", "trait", "set", "--trait", TRAIT, provider)
        self.assertEqual([{"name": TRAIT}], listed)
        wanted = ["--resource", "VCPU=2", "--required", TRAIT]
        listed = self.openstack("allocation", "candidate", "list", *wanted)
        self.assertIn(provider, {row["resource provider"] for row in listed})
        claimed = [
            "--allocation", f"rp={provider},VCPU=2", "--consumer-type", "INSTANCE",
            "--project-id", self.people.projects["elsewhere"], "--user-id", self.people.users["nova"],
        ]  # fmt: skip
        self.openstack("resource", "provider", "allocation", "set", *claimed, consumer)
        kept = self.openstack("resource", "provider", "allocation", "show", consumer)
        self.assertEqual([{"VCPU": 2}], [row["resources"] for row in kept])

    def test_a_reader_is_refused(self):
        output = self.openstack("resource", "provider", "list", user="reader", of="demo", expected=1)
        self.assertIn("HTTP 403", output)


class LargeAnswers(Client):
    """keystoneauth1 asks for compressed answers, and large ones are sent while they are made."""

    @classmethod
    def start(cls):
        if cls.scene.against_reference:
            raise unittest.SkipTest("the reference has no bulk read, and writes each answer as a whole")
        return super().start()

    def test_they_are_read_to_their_end(self):
        client = self.adapter("operator", "admin")
        traits = [f"CUSTOM_{nth}_{'Y' * 230}" for nth in range(400)]
        for name in [*traits, "CUSTOM_NOBODY"]:
            client.put(f"/traits/{name}")
        for nth in range(330):
            provider = str(uuid.uuid4())
            client.post("/resource_providers", json={"name": f"large-{nth}", "uuid": provider})
            client.put(f"/resource_providers/{provider}/inventories",
                       json={"inventories": {"VCPU": {"total": 8}}, "resource_provider_generation": 0})
            client.put(f"/resource_providers/{provider}/traits",
                       json={"traits": traits, "resource_provider_generation": 1})
        candidates = "/allocation_candidates?resources=VCPU:1"
        for path, least in (
            (f"{candidates}&required=CUSTOM_NOBODY", 10),
            (f"{candidates}&required={traits[0]}&limit=25", 2 << 20),
            (f"{candidates}&required={traits[0]}", 30 << 20),
            ("/-/v1/providers?required=CUSTOM_NOBODY", 10),
            (f"/-/v1/providers?include=traits&required={traits[0]}", 30 << 20),
        ):
            plain = client.get(path, headers={"Accept-Encoding": "identity"})
            self.assertNotIn("Content-Encoding", plain.headers)
            self.assertLess(least, len(plain.content), path)
            for more in ({}, {"TE": "trailers", "Connection": "TE"}):
                compressed = client.get(path, headers=more)
                self.assertTrue(compressed.content == plain.content, f"{path} {more}")
                if len(plain.content) > 8192:
                    self.assertEqual("gzip", compressed.headers["Content-Encoding"], path)  # fmt: skip


class KeystoneauthBelowAPrefix(Keystoneauth):
    region = PREFIXED_REGION


class CommandLineBelowAPrefix(CommandLine):
    region = PREFIXED_REGION


class KeystoneauthByTls(Keystoneauth):
    """The same, and nobody in between can read it."""

    region = TLS_REGION

    @classmethod
    def start(cls):
        if cls.scene.against_reference:
            raise unittest.SkipTest("the reference leaves TLS to what is in front of it")
        if "--tls-cert" not in cls.scene.source.run("serve", "--help").stdout:
            raise unittest.SkipTest("this berth has no --tls-cert")
        if cls.scene.tls_files is None:
            authority = Authority(cls.scene.folder, "authority-of-placement")
            cls.scene.tls_files = authority.issue("placement")
            cls.scene.tls_authority = authority
        cls.certificates = str(cls.scene.tls_authority.file)
        return cls.scene.server("encrypted")


class CommandLineByTls(CommandLine):
    region = TLS_REGION
    start = KeystoneauthByTls.__dict__["start"]
