"""Who may do what: every operation as everybody, with the present default rules and those before."""

import concurrent.futures

from placement import policies

from exchange import ask
from operations import Operation, operations
from people import Kind
from scene import Case


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

    def judge(self, name: str, new_defaults: bool) -> None:
        asked = [(person, operation) for person in self.people.tokens for operation in self.operations()]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ours = pool.submit(self.statuses, self.scene.server(name).url, asked)
            compared = asked
            if self.scene.against_reference:
                compared = []
            elif not new_defaults:
                # It asks Keystone about a bad token every time, and once is enough.
                compared = [(person, it) for person, it in asked if self.people.kinds[person] != Kind.STRANGER]
            theirs = self.statuses(self.scene.server(name, reference=True).url, compared)
            ours = ours.result()
        faults = []
        for person, operation in asked:
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

    def statuses(self, url: str, asked: list[tuple[str, Operation]]) -> dict:
        """What a server answers to each."""
        return {
            (person, it): ask(url + it.target(), it.method, self.people.tokens[person], body=it.body).status
            for person, it in asked
        }
