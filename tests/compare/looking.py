"""The commands of `berth` that ask any placement service say the same of openstack-placement and of Berth."""

import json
import uuid

from comparing import Both
from harness.commands import berth


class Looking(Both):
    maxDiff = None

    def says(self, url: str, *arguments: str, code: int = 0) -> str:
        done = berth(*arguments, "--url", url)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def both_say(self, *arguments: str) -> str:
        """What a command prints of either service, which must be the same."""
        output = [self.says(it.url, *arguments) for it in (self.reference, self.berth)]
        self.assertEqual(output[0], output[1])
        return output[1]

    def test_hosts_trees_providers_and_consumers_are_the_same(self) -> None:
        hosts = json.loads(self.both_say("ls", "--json"))
        self.assertGreater(len(hosts), 1)
        self.both_say("ls", "--sort", "name")
        self.both_say("ls", "required=MISC_SHARES_VIA_AGGREGATE")
        providers = json.loads(self.both_say("tree", "--json"))
        self.assertGreater(len(providers), len(hosts))
        consumers = set()
        for provider in providers:
            shown = json.loads(self.both_say("show", provider["uuid"], "--json"))
            consumers |= {it["uuid"] for it in shown["consumers"]}
        self.assertGreater(len(consumers), 1)
        for consumer in consumers:
            self.both_say("show", consumer)

    def test_candidates_are_the_same(self) -> None:
        def candidates(url: str) -> list:
            output = json.loads(self.says(url, "candidates", "resources=VCPU:1", "--limit", "1000", "--json"))
            return sorted(output["allocation_requests"], key=json.dumps)

        found = candidates(self.berth.url)
        self.assertGreater(len(found), 0)
        self.assertEqual(found, candidates(self.reference.url))

    def test_a_claim_and_its_release(self) -> None:
        found = json.loads(self.says(self.berth.url, "candidates", "resources=VCPU:1", "--json"))
        provider = next(iter(found["allocation_requests"][0]["allocations"]))
        # The same provider of both, so that they still hold the same afterwards.
        for service in (self.reference, self.berth):
            consumer = str(uuid.uuid4())
            owner = ["--project", "p", "--user", "u", "--type", "INSTANCE", "--yes"]
            self.says(service.url, "claim", consumer, "--on", provider, "--resources", "VCPU:1", *owner)
            self.assertIn("VCPU:1", self.says(service.url, "show", consumer))
            self.says(service.url, "release", consumer, "--yes")
            self.says(service.url, "show", consumer, code=1)

    def test_what_only_berth_knows_is_said_to_be_so(self) -> None:
        for arguments in (["explain", "resources=VCPU:1"], ["fit", "resources=VCPU:1"], ["why"]):
            done = berth(*arguments, "--url", self.reference.url)
            self.assertEqual(done.returncode, 1)
            self.assertIn("only Berth", done.stderr)
