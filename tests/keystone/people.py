"""Who there is in the Keystone of the suite, what they may do, and their tokens."""

import enum

from identity import REGION, Keystone, application_credential, password, project

# Where the endpoints of the catalog lead is set when the servers run.
UNSET = "http://127.0.0.1:1"


class Kind(enum.Enum):
    """What someone is to the policy."""

    ADMIN = enum.auto()
    SERVICE = enum.auto()
    # Of the project that is asked about.
    READER = enum.auto()
    # Has a project, but no role that counts.
    OTHER = enum.auto()
    # Has no project: a token for a domain, for the system, or for nothing.
    OUTSIDER = enum.auto()
    # Has no token that is valid.
    STRANGER = enum.auto()


class People:
    """Users, projects and tokens. `tokens` and `kinds` are by what someone is called in tests."""

    def __init__(self, keystone: Keystone) -> None:
        self.keystone = keystone
        self.tokens: dict[str, str | bytes | None] = {}
        self.kinds: dict[str, Kind] = {}
        self.passwords: dict[str, str] = {}
        self.users = {"admin": keystone.id("user", "admin")}
        self._roles = {}
        self._regions: set[str] = set()
        for role in ("admin", "manager", "member", "reader", "service"):
            self._roles[role] = keystone.id("role", role)
        self._roles["other"] = keystone.make("role", name="other")
        self.projects = {"admin": keystone.id("project", "admin")}
        for name in ("service", "demo", "elsewhere", "deserted"):
            self.projects[name] = keystone.make("project", name=name, domain_id="default")
        self._add_services()
        self._add_users_of_projects()
        self._add_application_credentials()
        self._add_outsiders()
        self._add_strangers()

    def token(self, user: str, of: str = "demo") -> str:
        """A new token of one of the users."""
        return self.keystone.authenticate(password(user, self.passwords[user]), project(of))

    def credential(self, owner: str, of: str, **more) -> tuple[str, str]:
        """Id and secret of a new application credential."""
        secret = self.keystone.secret()
        body = {"name": f"credential-{len(self.keystone.secrets)}", "secret": secret, **more}
        made = self.keystone.call(
            "POST", f"/users/{self.users[owner]}/application_credentials",
            {"application_credential": body}, token=self.token(owner, of),
        )  # fmt: skip
        return made["application_credential"]["id"], secret

    def endpoints(self, service: str, region: str, url: str) -> None:
        """Have the catalog lead to `url` for a service in a region, on each interface."""
        if region not in self._regions:
            self.keystone.make("region", id=region)
            self._regions.add(region)
        service = self._services[service]
        query = f"/endpoints?service_id={service}&region_id={region}"
        known = self.keystone.call("GET", query)["endpoints"]
        for endpoint in known:
            self.keystone.call("PATCH", f"/endpoints/{endpoint['id']}", {"endpoint": {"url": url}})
        for interface in ("public", "internal", "admin") if not known else ():
            self.keystone.make(
                "endpoint", service_id=service, region_id=region, interface=interface, url=url
            )

    def _add_services(self) -> None:
        self._services = {
            type: self.keystone.make("service", name=type, type=type) for type in ("identity", "placement")
        }
        self.endpoints("identity", REGION, f"{self.keystone.url}/v3")
        self.endpoints("placement", REGION, UNSET)

    def _add_user(self, name: str) -> str:
        self.passwords[name] = self.keystone.secret()
        attributes = {"name": name, "domain_id": "default", "password": self.passwords[name]}
        self.users[name] = self.keystone.make("user", **attributes)
        return self.users[name]

    def _add_users_of_projects(self) -> None:
        for name, role, of in (
            ("operator", "admin", "admin"),
            ("leaver", "admin", "admin"),
            ("berth", "service", "service"),
            ("nova", "service", "service"),
            ("manager", "manager", "demo"),
            ("member", "member", "demo"),
            ("reader", "reader", "demo"),
            ("other", "other", "demo"),
            ("neighbour", "reader", "elsewhere"),
        ):
            user = self._add_user(name)
            self._grant(f"/projects/{self.projects[of]}/users/{user}/roles", role)
        self._know("an admin", Kind.ADMIN, self.token("operator", "admin"))
        self._know("a service", Kind.SERVICE, self.token("nova", "service"))
        self._know("a manager", Kind.READER, self.token("manager"))
        self._know("a member", Kind.READER, self.token("member"))
        self._know("a reader", Kind.READER, self.token("reader"))
        self._know("one with another role", Kind.OTHER, self.token("other"))
        self._know("a reader of another project", Kind.OTHER, self.token("neighbour", "elsewhere"))

    def _add_application_credentials(self) -> None:
        for name, kind, owner, of in (
            ("an admin's application credential", Kind.ADMIN, "operator", "admin"),
            ("a reader's application credential", Kind.READER, "reader", "demo"),
        ):
            made = application_credential(*self.credential(owner, of))
            self._know(name, kind, self.keystone.authenticate(made))

    def _add_outsiders(self) -> None:
        for name, role, where, scope in (
            ("a system admin", "admin", "/system/users/{}/roles", {"system": {"all": True}}),
            ("a system reader", "reader", "/system/users/{}/roles", {"system": {"all": True}}),
            ("a domain admin", "admin", "/domains/default/users/{}/roles", {"domain": {"id": "default"}}),
        ):
            user = self._add_user(name)
            self._grant(where.format(user), role)
            token = self.keystone.authenticate(password(name, self.passwords[name]), scope)
            self._know(name, Kind.OUTSIDER, token)
        unscoped = password("operator", self.passwords["operator"])
        self._know("an admin without scope", Kind.OUTSIDER, self.keystone.authenticate(unscoped, "unscoped"))

    def _add_strangers(self) -> None:
        user = self._add_user("disabled")
        self._grant(f"/projects/{self.projects['admin']}/users/{user}/roles", "admin")
        self._know("a disabled user", Kind.STRANGER, self.token("disabled", "admin"))
        self.keystone.call("PATCH", f"/users/{user}", {"user": {"enabled": False}})
        expired = self.keystone.ending(self.tokens["an admin"], -60)
        self._know("an admin with an expired token", Kind.STRANGER, expired)
        revoked = self.token("operator", "admin")
        self.keystone.revoke(revoked)
        self._know("an admin with a revoked token", Kind.STRANGER, revoked)
        self._know("nobody", Kind.STRANGER, None)
        self._know("one who makes a token up", Kind.STRANGER, "admin")

    def _grant(self, where: str, role: str) -> None:
        self.keystone.call("PUT", f"{where}/{self._roles[role]}")

    def _know(self, name: str, kind: Kind, token: str | None) -> None:
        self.kinds[name], self.tokens[name] = kind, token
