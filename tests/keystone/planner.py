"""The planner's callers, and the projects that are members of its groups."""

import contextlib
import uuid

from exchange import Answer, ask
from harness.ports import free_port
from scene import Case, beyond_the_reference

NOT_THE_REFERENCE = "the reference has no planner"


class Planner(Case):
    """With a server of the planner that asks Keystone through the gate."""

    @contextlib.contextmanager
    def planner(self, user: str, project: str, **options):
        """The planner's URL, of a server that is this user to Keystone."""
        address = f"127.0.0.1:{free_port()}"
        name = f"planner-{user}"
        options = self.scene.gated() | {
            "keystone_username": user,
            "keystone_password": self.people.passwords[user],
            "keystone_project_name": project,
            "planner_listen": address,
        } | options  # fmt: skip
        with self.scene.source.start(name, **options) as server:
            yield f"http://{address}"
            self.assertTrue(server.is_running(), server.tail())

    def add(self, planner: str, members: list[str]) -> Answer:
        """Asked as an administrator."""
        token = self.people.tokens["an admin"]
        return ask(f"{planner}/v1/groups/g/members", "PUT", token, body={"members": members})

    def make_group(self, planner: str) -> None:
        body = {"name": "g", "type": "exclusivity"}
        answer = ask(f"{planner}/v1/groups", "POST", self.people.tokens["an admin"], body=body)
        self.assertEqual(201, answer.status, answer.body)

    @beyond_the_reference(NOT_THE_REFERENCE)
    def test_who_may_ask(self):
        with self.planner("operator", "admin") as planner:
            for person, token in self.people.tokens.items():
                operator = self.people.kinds[person].name in ("ADMIN", "SERVICE")
                reads = self.people.kinds[person].name == "READER"
                for method, path, may in (
                    ("GET", "/v1/status", operator or reads or person == "a reader of another project"),
                    ("GET", "/v1/groups", operator),
                    # What is asked for makes no sense, which is told to who may ask for it.
                    ("POST", "/v1/plans", operator or person in ("a manager", "a member")),
                ):
                    with self.subTest(f"{person} {method} {path}"):
                        body = {} if method == "POST" else None
                        answer = ask(planner + path, method, token, body=body)
                        allowed = 400 if method == "POST" else 200
                        self.assertEqual(allowed if may else 401, answer.status, answer.body)
                        if not may:
                            self.assertEqual(b"Authentication required", answer.body)
                            self.assertEqual("text/plain", answer.headers.get_content_type())

    @beyond_the_reference(NOT_THE_REFERENCE)
    def test_members_are_projects_of_keystone(self):
        demo, elsewhere = (self.people.projects[name] for name in ("demo", "elsewhere"))
        with self.planner("operator", "admin") as planner:
            self.make_group(planner)
            self.assertEqual([demo], self.add(planner, [demo]).json()["members"])
            for member in (uuid.uuid4().hex, str(uuid.uuid4()), "test_member"):
                answer = self.add(planner, [elsewhere, member])
                self.assertEqual(409, answer.status)
                words = "Member list contains invalid tenant IDs"
                self.assertEqual(words, answer.json()["explanation"])
            # Our own token was revoked: a new one is got.
            self.keystone.revoke(self.scene.gate.issued[-1])
            self.assertEqual([demo, elsewhere], self.add(planner, [elsewhere]).json()["members"])

    @beyond_the_reference(NOT_THE_REFERENCE)
    def test_nobody_is_believed_while_keystone_does_not_say(self):
        elsewhere = self.people.projects["elsewhere"]
        # The role service lets it ask about tokens, and about no project but its own.
        with self.planner("berth", "service") as planner:
            self.make_group(planner)
            for answer in (self.add(planner, [elsewhere]), self.closed(planner, elsewhere)):
                self.assertEqual(503, answer.status, answer.body)
                self.assertGreater(int(answer.headers["Retry-After"]), 0)
                body = answer.json()
                self.assertEqual("HTTPServiceUnavailable", body["error"]["type"])
                self.assertNotIn("403", body["explanation"])

    def closed(self, planner: str, member: str) -> Answer:
        with self.scene.gate.closed():
            return self.add(planner, [member])
