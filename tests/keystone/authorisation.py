"""Who may do what: every operation as everybody, with the present default rules and those before."""

import concurrent.futures

from placement import policies

from exchange import ask
from operations import Operation, operations
from people import Kind
from scene import Case, beyond_the_reference


class Authorisation(Case):
    def operations(self):
        projects = self.people.projects
        return operations(projects["demo"], projects["deserted"])

    def test_the_table_has_all_that_the_reference_has_rules_for(self):
        theirs = {
            (operation["method"], operation["path"])
            for rule in policies.list_rules()
            for operation in getattr(rule, "operations", [])
        }
        ours = {(operation.method, operation.path) for operation in self.operations()}
        self.assertEqual(set(), theirs - ours)
        self.assertGreater(len(theirs), 30)

    def test_present_defaults(self):
        self.judge("present", new_defaults=True)

    def test_defaults_before(self):
        self.judge("before", new_defaults=False)

    @beyond_the_reference("it is a command of Berth's")
    def test_why_a_token_may_or_may_not(self):
        file = self.scene.folder / "policy-check.toml"
        options = self.scene.credentials() | {"auth": "keystone"}
        file.write_text("".join(f'{name.replace("_", "-")} = "{value}"\n' for name, value in options.items()))
        own = ["--target", f"project_id={self.people.projects['demo']}"]
        for person, rule, target, status, words in (
            ("a service", "placement:reshaper:reshape", [], 0, "yes   role:service"),
            ("a reader", "placement:usages", own, 0, "yes     rule:project_reader_api"),
            ("a reader", "placement:traits:list", [], 1, "no      role:admin"),
            ("a system admin", "placement:traits:list", [], 1, "scoped to a project"),
            ("one who makes a token up", "placement:traits:list", [], 2, "does not know the token"),
        ):
            with self.subTest(person, rule=rule):
                token = self.people.tokens[person]
                done = self.scene.source.run("policy", "check", "--config", file, *target, rule, BERTH_TOKEN=token)
                self.assertEqual((status, ""), (done.returncode, "" if words in done.stdout + done.stderr else done))

    def judge(self, name: str, new_defaults: bool) -> None:
        requests = [(person, operation) for person in self.people.tokens for operation in self.operations()]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ours = pool.submit(self.statuses, self.scene.server(name).url, requests)
            compared = requests
            if self.scene.against_reference:
                compared = []
            elif not new_defaults:
                # It asks Keystone about a bad token every time, and once is enough.
                compared = [(person, it) for person, it in requests if self.people.kinds[person] != Kind.STRANGER]
            theirs = self.statuses(self.scene.server(name, reference=True).url, compared)
            ours = ours.result()
        faults = []
        for person, operation in requests:
            kind, got = self.people.kinds[person], ours[person, operation]
            refusal = 401 if kind is Kind.STRANGER else 403
            allowed = operation.allows(kind, new_defaults)
            is_right = got not in (401, 403) if allowed else got == refusal
            reference = theirs.get((person, operation), got)
            if not (is_right and got < 500 and got == reference):
                expected = "allowed" if allowed else refusal
                faults.append(
                    f"{operation.method} {operation.target()} as {person}: {got}, "
                    f"expected {expected}, the reference {reference}"
                )
        self.assertEqual("", "\n".join(faults))

    def statuses(self, url: str, requests: list[tuple[str, Operation]]) -> dict:
        """What a server answers to each."""
        return {
            (person, it): ask(url + it.target(), it.method, self.people.tokens[person], body=it.body).status
            for person, it in requests
        }
