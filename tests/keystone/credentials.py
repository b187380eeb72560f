"""How a server shows Keystone who it is, and how it knows Keystone."""

from gate import Gate
from outages import Gated
from scene import beyond_the_reference
from tls import Authority


class Credentials(Gated):
    """The ways in which a server may show Keystone who it is."""

    def works(self, name: str, options: dict, without: tuple[str, ...] = ()) -> None:
        options = self.scene.gated() | options
        options = {key: value for key, value in options.items() if key not in without}
        with self.scene.source.start(name, **options) as server:
            self.assertEqual(200, self.ask(self.new_token(), server).status, server.tail())
            self.assertEqual(401, self.ask("made up", server).status)

    PASSWORD = (
        "keystone_username", "keystone_user_domain_name", "keystone_password",
        "keystone_project_name", "keystone_project_domain_name",
    )  # fmt: skip
    PROJECT = ("keystone_project_name", "keystone_project_domain_name")

    def test_domains_by_id(self):
        ids = {"keystone_user_domain_id": "default", "keystone_project_domain_id": "default"}
        self.works("by-domain-ids", ids, ("keystone_user_domain_name", "keystone_project_domain_name"))

    @beyond_the_reference("it has no such options")
    def test_secrets_in_files(self):
        file = self.scene.folder / "password"
        file.write_text(self.people.passwords["berth"] + "\n")
        self.works("password-file", {"keystone_password_file": str(file)}, ("keystone_password",))
        id, secret = self.people.credential("berth", "service")
        file.write_text(secret)
        self.works("secret-file", {
            "keystone_application_credential_id": id,
            "keystone_application_credential_secret_file": str(file),
        }, self.PASSWORD)  # fmt: skip

    def test_the_whole_system(self):
        self.works("system-scope", {
            "keystone_username": "a system reader",
            "keystone_password": self.people.passwords["a system reader"],
            "keystone_system_scope": "all",
        }, self.PROJECT)  # fmt: skip


class Secured(Gated):
    """Keystone by TLS."""

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.scene.folder)

    def reached(self, name: str, works: bool, **options) -> None:
        # The reference takes it from the environment.
        with self.fresh(name, **options) as server:
            if works:
                self.assertEqual(200, self.ask(self.new_token(), server).status, server.tail())
            else:
                self.unavailable(self.new_token(), server)

    def test_by_its_certificate(self):
        with Gate(self.keystone.url, self.authority.server()) as gate:
            self.people.endpoints("identity", "Secured", f"{gate.url}/v3")
            there = {"keystone_auth_url": gate.url, "keystone_region_name": "Secured"}
            self.reached("tls-trusted", True, keystone_ca_file=str(self.authority.file), **there)
            self.reached("tls-insecure", True, keystone_insecure=True, **there)
            seen = len(gate.seen)
            self.reached("tls-not-trusted", False, **there)
            another = Authority(self.scene.folder, "another")
            self.reached("tls-another", False, keystone_ca_file=str(another.file), **there)
            self.assertEqual(seen, len(gate.seen))

    def test_by_both_certificates(self):
        with Gate(self.keystone.url, self.authority.server(asks_for_one=True)) as gate:
            self.people.endpoints("identity", "Mutual", f"{gate.url}/v3")
            there = {
                "keystone_auth_url": gate.url, "keystone_region_name": "Mutual",
                "keystone_ca_file": str(self.authority.file),
            }  # fmt: skip
            self.reached("tls-without-own", False, **there)
            certificate, key = self.authority.issue("berth")
            own = {"keystone_cert_file": str(certificate), "keystone_key_file": str(key)}
            self.reached("tls-with-own", True, **there, **own)
