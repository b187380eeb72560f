"""Berth's own commands ask services with the credentials of OpenStack's clients: `berth compare`."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from clients import Client
from identity import REGION


class Compare(Client):
    """A service is compared with itself, which leads to all that a command asks for."""

    @classmethod
    def setUpClass(cls):
        if cls.scene.against_reference:
            raise unittest.SkipTest("the reference has no such command")
        super().setUpClass()

    def environment(self, user: str = "nova", of: str = "service") -> dict[str, str]:
        return {f"OS_{name.upper()}": value for name, value in self.account(user, of).items()}

    def compare(self, left: str, right: str, code: int = 0, **environment: str) -> str:
        """Compare; what is said."""
        done: subprocess.CompletedProcess = self.scene.source.run(
            "compare", left, right, "--sample", "5", "--json", **environment
        )
        output = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, output)
        for secret in self.keystone.secrets:
            self.assertNotIn(secret, output)
        if code == 0:
            report = json.loads(done.stdout)
            self.assertEqual({report["left"]["url"], report["right"]["url"]}, {f"{self.server.url}/"})
        return output

    def test_the_environment_leads_to_the_catalog(self):
        for more in ({}, {"OS_REGION_NAME": REGION, "OS_INTERFACE": "internal"}):
            self.compare("envvars", self.server.url, **self.environment(), **more)

    def test_an_application_credential(self):
        id, secret = self.people.credential("nova", "service")
        credential = {
            "OS_AUTH_URL": self.keystone.url, "OS_AUTH_TYPE": "v3applicationcredential",
            "OS_APPLICATION_CREDENTIAL_ID": id, "OS_APPLICATION_CREDENTIAL_SECRET": secret,
        }  # fmt: skip
        self.compare("envvars", self.server.url, **credential)

    def test_a_cloud_with_its_secret_elsewhere(self):
        account = self.account("nova", "service")
        password = account.pop("password")
        with tempfile.TemporaryDirectory() as folder:
            files = {"clouds": account, "secure": {"password": password}}
            for name, auth in files.items():
                file = pathlib.Path(folder) / f"{name}.yaml"
                file.write_text(json.dumps({"clouds": {"old": {"auth": auth, "region_name": REGION}}}))
            chosen = {"OS_CLIENT_CONFIG_FILE": f"{folder}/clouds.yaml", "OS_CLIENT_SECURE_FILE": f"{folder}/secure.yaml"}
            self.compare("old", "old", **chosen)
            self.compare(self.server.url, "old", OS_CLOUD="old", **chosen)

    def test_tokens(self):
        token = self.people.token("nova", "service")
        self.compare(
            self.server.url, self.server.url, BERTH_COMPARE_LEFT_TOKEN=token, BERTH_COMPARE_RIGHT_TOKEN=token
        )
        rescoped = {
            "OS_AUTH_TYPE": "token", "OS_AUTH_URL": self.keystone.url, "OS_TOKEN": token,
            "OS_PROJECT_NAME": "service",
        }  # fmt: skip
        self.compare("envvars", "envvars", **rescoped)
        rescoped.pop("OS_PROJECT_NAME")
        unscoped = self.compare("envvars", "envvars", 2, **rescoped)
        self.assertIn("the token has no catalog, as it has no scope: name a project", unscoped)

    def test_what_keystone_or_the_service_refuses(self):
        url, account = self.server.url, self.environment()
        wrong = self.compare("envvars", url, 2, **account | {"OS_PASSWORD": "not-that-one"})
        self.assertIn("Keystone does not accept the credentials: 401 Unauthorized: ", wrong)
        nowhere = self.compare("envvars", url, 2, **account | {"OS_REGION_NAME": "Nowhere"})
        self.assertIn("the catalog has no public endpoint of type placement in region Nowhere", nowhere)
        bare = self.compare(url, url, 2)
        self.assertIn("/resource_providers: 401 Unauthorized: ", bare)
        reader = self.compare("envvars", url, 2, **self.environment("reader", "demo"))
        self.assertIn(": 403 Forbidden: ", reader)
        gone = self.compare("envvars", url, 2, **account | {"OS_AUTH_URL": "http://127.0.0.1:1"})
        self.assertIn("http://127.0.0.1:1: Keystone does not respond: ", gone)
