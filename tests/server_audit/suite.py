"""`berth audit` and `berth heal` beside lists of nova's servers, on the reference and on Berth.

Run it by `tests/server_audit/run`, which prepares the Python environment first.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from harness import suites
from harness.commands import berth
from harness.environment import REPOSITORY
from harness.servers import Berth, Reference

sys.path.insert(0, str(REPOSITORY / "tests" / "differential"))
import planted  # noqa: E402
from exchange import Request, send  # noqa: E402
from planted import HOSTS, host, uuid  # noqa: E402

VERSION = "1.39"
CLEAN, FAILED, FOUND, NOTHING_DONE, INVALID = 0, 1, 3, 4, 127
# Everything was written just now.
NOW = ["--grace", "0s"]


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.name = self.id().rsplit(".", 1)[1]

    def start(self, source) -> None:
        """A service with the providers of the cloud."""
        self.source = self.enterContext(source())
        self.url = self.enterContext(self.source.start(f"audit-{self.name}"[:60])).url

    def ask(self, method: str, path: str, body=None, version: str = VERSION):
        answer = send(self.url, Request(method, path, version, body=body))
        self.assertLess(answer.status, 300, f"{method} {path}: {answer.body}")
        return answer.json()

    def provider(self, of: str, name: str, inventories: dict, parent: str | None = None) -> None:
        self.ask("POST", "/resource_providers", {"uuid": of, "name": name, "parent_provider_uuid": parent})
        inventories = {
            resource_class: {"total": total, "max_unit": total} for resource_class, total in inventories.items()
        }
        body = {"resource_provider_generation": 0, "inventories": inventories}
        self.ask("PUT", f"/resource_providers/{of}/inventories", body)

    def fill(self, cloud: planted.Cloud) -> None:
        self.ask("PUT", "/resource_classes/CUSTOM_RESERVATION")
        much = {"VCPU": 1000, "MEMORY_MB": 1000000, "DISK_GB": 100000}
        for nth, name in enumerate(HOSTS):
            self.provider(host(nth + 1), name, {**much, "CUSTOM_RESERVATION": 5})
        network = {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}
        self.provider(uuid(planted.CHILD), "node-1.example:eth0", network, host(1))
        self.provider(uuid(planted.SHARING), "disks", {"DISK_GB": 1000})
        path = f"/resource_providers/{uuid(planted.SHARING)}"
        body = {"resource_provider_generation": 1, "traits": ["MISC_SHARES_VIA_AGGREGATE"]}
        self.ask("PUT", f"{path}/traits", body)
        # Not nova's.
        self.provider(uuid(planted.FOREIGN), "addresses", {"IPV4_ADDRESS": 10})
        for consumer, held in cloud.held.items():
            self.claim(consumer, held, cloud.types.get(consumer))
        self.let_times_pass()

    def let_times_pass(self) -> None:
        """The times that a service tells are whole seconds, and may be rounded up."""
        time.sleep(1.1)

    def claim(self, consumer: str, held: dict, kind: str | None = None, generation: int | None = None) -> None:
        body = {
            "allocations": {of: {"resources": resources} for of, resources in held.items()},
            "project_id": "project-1", "user_id": "user-1", "consumer_generation": generation,
        }  # fmt: skip
        if kind:
            self.ask("PUT", f"/allocations/{consumer}", {**body, "consumer_type": kind})
        else:
            # As nova does, without a type.
            self.ask("PUT", f"/allocations/{consumer}", body, "1.36")

    def held(self, number: int) -> dict:
        answer = self.ask("GET", f"/allocations/{uuid(number)}")
        return {of: it["resources"] for of, it in answer["allocations"].items()}

    def berth(self, *arguments, stdin: str | None = None) -> subprocess.CompletedProcess:
        return berth(*arguments, "--url", self.url, stdin=stdin or "")

    def audit(self, *arguments, code: int, stdin: str | None = None) -> dict[str, list[int]]:
        """Audit; what was found, by kind: the last digits of the subjects."""
        done = self.berth("audit", *arguments, "--json", stdin=stdin)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.report = json.loads(done.stdout)
        found: dict[str, list[int]] = {}
        for it in self.report["findings"]:
            found.setdefault(it["kind"], []).append(int(it["subject"][-6:]))
        return found

    def left(self) -> dict[str, list[int]]:
        left = self.report["left_alone"].items()
        return {reason: sorted(int(it[-6:]) for it in each["consumers"]) for reason, each in left}

    def heal(self, *arguments, code: int) -> str:
        done = self.berth("heal", "--plan", self.plan, *arguments)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout + done.stderr

    @property
    def plan(self) -> pathlib.Path:
        return self.folder / "plan.json"


class Listed(Case):
    """With lists of servers."""

    def generation(self, number: int) -> int:
        return self.ask("GET", f"/allocations/{uuid(number)}")["consumer_generation"]

    def rows(self, cloud: planted.Cloud) -> list[dict]:
        """What `openstack server list --all-projects --long -f json` prints."""
        states = {"active": "ACTIVE", "shelved_offloaded": "SHELVED_OFFLOADED", "resized": "VERIFY_RESIZE"}
        return [
            {
                "ID": it["uuid"], "Name": "x",
                "Status": "DELETED" if it.get("deleted") else states[it.get("vm_state", "active")],
                "Task State": it.get("task_state"), "Power State": "Running", "Networks": {"net": ["10.0.0.2"]},
                "Image Name": "image", "Image ID": "image-1", "Flavor": "m1", "Availability Zone": "nova",
                "Host": it["node"], "Properties": {}, "Project ID": it.get("project", "project-1"),
            }
            for it in cloud.servers
        ]  # fmt: skip

    def detail(self, cloud: planted.Cloud) -> list[dict]:
        """What `GET /servers/detail` answers, from microversion 2.47 on."""
        flavor = {"vcpus": 2, "ram": 512, "disk": 10, "ephemeral": 0, "swap": 0, "extra_specs": {}}
        by_id = {it["uuid"]: it for it in cloud.servers}
        return [
            {
                "id": row["ID"], "status": row["Status"], "OS-EXT-STS:task_state": row["Task State"],
                "OS-EXT-SRV-ATTR:host": "compute", "OS-EXT-SRV-ATTR:hypervisor_hostname": row["Host"],
                "tenant_id": row["Project ID"], "user_id": "user-1", "flavor": flavor,
                "image": "" if by_id[row["ID"]].get("volume") else {"id": "image-1"},
                "created": "2026-01-02T03:04:05Z", "updated": "2026-01-02T03:04:05Z",
            } | ({} if row["Host"] else {"OS-EXT-SRV-ATTR:host": None})
            for row in self.rows(cloud)
        ]  # fmt: skip

    def listed(self, rows: object) -> pathlib.Path:
        file = self.folder / "servers.json"
        file.write_text(rows if isinstance(rows, str) else json.dumps(rows))
        return file

    def test_the_clients_list_beside_the_reference(self) -> None:
        cloud = planted.planted()
        self.start(Reference)
        self.fill(cloud)
        file = self.listed(self.rows(cloud))
        found = self.audit("--servers", file, *NOW, "--plan", self.plan, code=FOUND)
        self.assertEqual(found, {
            "deleted-server": [2],
            "several-hosts": [4, 5, 7],
            "wrong-host": [12],
            "without-host": [8],
            "no-allocations": [9],
        })  # fmt: skip
        # While servers of the same project migrate, these may be their migrations.
        self.assertEqual(self.left(), {
            "busy": [planted.BUSY, planted.RESIZED],
            "maybe-migration": [1, planted.ARCHIVED, 102, 103, planted.RESIZING],
            "not-novas": [planted.PLAN, planted.RESERVED],
            "unknown-host": [planted.LOST],
        })  # fmt: skip
        self.heal("--yes", code=CLEAN)
        self.assertEqual(self.held(planted.BUSY).keys(), {host(1), host(2)})
        found = self.audit("--servers", file, *NOW, code=FOUND)
        self.assertEqual(found, {"wrong-host": [12], "no-allocations": [9]})

    def test_pages_of_the_api_beside_the_reference(self) -> None:
        self.heals(Reference)

    def test_pages_of_the_api_beside_berth(self) -> None:
        self.heals(Berth)

    def heals(self, source) -> None:
        cloud = planted.planted()
        # Nothing is under way.
        for number in (planted.BUSY, planted.RESIZED, planted.RESIZING):
            cloud.held.pop(uuid(number))
        cloud.servers = [it for it in cloud.servers if it["uuid"] not in map(uuid, (planted.BUSY, planted.RESIZED))]
        self.start(source)
        self.fill(cloud)
        detail = self.detail(cloud)
        link = {"servers_links": [{"rel": "next", "href": "http://nova"}]}
        pages = [{"servers": detail[:20], **link}, {"servers": detail[20:]}]
        stdin = "\n".join(json.dumps(page) for page in pages)
        options = ["--servers", "-", *NOW, "--owners"]
        refused = self.berth("audit", *options, stdin=stdin)
        self.assertEqual(refused.returncode, INVALID, refused.stdout)
        self.assertIn("are not among the servers", refused.stderr)

        # One of each kind, and nothing else.
        options += ["--max-orphans", "4", "--plan", self.plan]
        found = self.audit(*options, stdin=stdin, code=FOUND)
        self.assertEqual(found, planted.HEALED | planted.DECIDED)
        self.assertEqual(self.left(), {
            "not-novas": [planted.PLAN, planted.RESERVED],
            "unknown-host": [planted.LOST],
        })  # fmt: skip
        # What has just changed is left alone.
        recent = self.audit("--servers", "-", stdin=stdin, code=FOUND)
        self.assertEqual(set(recent), {"no-allocations"})

        before = self.ask("GET", f"/allocations/{uuid(4)}")
        dry = self.heal("--dry-run", code=NOTHING_DONE)
        self.assertIn(f"several-hosts consumer {uuid(4)}: would be done", dry)
        self.assertEqual(self.ask("GET", f"/allocations/{uuid(4)}"), before)
        self.assertIn("use --yes", self.heal(code=INVALID))
        # A claim that comes in between is left alone.
        mine = {host(1): planted.PLAIN, host(2): planted.PLAIN, host(3): planted.PLAIN}
        self.claim(uuid(5), mine, generation=self.generation(5))
        done = self.heal("--yes", code=FOUND)
        self.assertIn(f"several-hosts consumer {uuid(5)}: left as it is, because it has changed", done)
        self.assertEqual(self.held(5), mine)
        self.assertIn("1 changed since the audit", done)
        again = self.heal("--yes", code=FOUND)
        count = sum(map(len, planted.HEALED.values()))
        self.assertIn(f"{count - 1} done before, 1 changed", again)

        self.assertEqual([self.held(number) for number in (1, 2, 8, 102, 103)], [{}] * 5)
        self.assertEqual(self.held(4), {host(2): planted.PLAIN})
        self.assertEqual(self.held(9), {host(3): planted.PLAIN})
        self.assertEqual(self.held(10), {host(3): planted.PLAIN})
        self.assertEqual(self.ask("GET", f"/allocations/{uuid(11)}")["project_id"], "project-2")

        # The rest of the plan is in the next one, and what a person decides.
        self.let_times_pass()
        found = self.audit(*options, stdin=stdin, code=FOUND)
        self.assertEqual(found, planted.DECIDED | {"several-hosts": [5]})
        self.heal("--yes", code=CLEAN)
        self.heal("--yes", code=NOTHING_DONE)
        self.claim(uuid(12), {host(3): planted.PLAIN}, generation=self.generation(12))
        self.assertEqual(self.audit(*options, stdin=stdin, code=CLEAN), {})

    def test_old_clients_print_the_host_of_nova_compute(self) -> None:
        cloud = planted.in_order()
        self.start(Reference)
        self.fill(cloud)
        rows = [{**row, "Host": row["Host"].split(".")[0]} for row in self.rows(cloud)]
        rows = [{key: value for key, value in row.items() if key != "Project ID"} for row in rows]
        self.assertEqual(self.audit("--servers", self.listed(rows), *NOW, code=CLEAN), {})
        words = self.berth("audit", "--servers", self.listed(rows), *NOW).stdout
        self.assertIn("0 found", words)

    def test_wrong_lists_are_refused(self) -> None:
        cloud = planted.in_order()
        self.start(Reference)
        self.fill(cloud)
        rows = self.rows(cloud)
        short = [{key: value for key, value in row.items() if key not in ("Host", "Task State")} for row in rows]
        other = [{**row, "ID": row["ID"].replace("a-", "b-", 1)} for row in rows]
        for given, why in (
            (json.dumps(rows)[:-100], "it is cut off"),
            (short, "it has no Host: list the servers as an administrator"),
            (other, f"not one of the {len(rows)} servers of"),
            (rows[:20], "are not among the servers of"),
            ([], "there are no servers"),
            ([{**row, "Host": None} for row in rows], "and has no Host"),
            ({"servers": rows, "servers_links": [{"rel": "next", "href": "x"}]}, "the last page is missing"),
        ):
            done = self.berth("audit", "--servers", self.listed(given), *NOW, "--plan", self.plan)
            self.assertEqual(done.returncode, INVALID, done.stdout)
            self.assertIn(why, done.stderr)
            self.assertFalse(self.plan.exists())
        # Unless told.
        few = self.listed(rows[:-5])
        self.assertEqual(self.berth("audit", "--servers", few, *NOW).returncode, INVALID)
        found = self.audit("--servers", few, *NOW, "--max-orphans", "5", code=FOUND)
        self.assertEqual(len(found["orphan"]), 5)
        # What was claimed since the list was made is no orphan.
        hours = self.audit("--servers", few, "--taken", "2h", code=CLEAN)
        self.assertEqual((hours, len(self.left()["recent"])), ({}, 5))
        # A later time would let the grace end before it has begun.
        for later in ("2126-11-24T20:00:00Z", "2126-11-24"):
            done = self.berth("audit", "--servers", few, "--taken", later, "--max-orphans", "5", "--plan", self.plan)
            self.assertEqual((done.returncode, self.plan.exists()), (INVALID, False))
            self.assertIn("is later than now (", done.stderr)

    def test_plans_that_cannot_be_used(self) -> None:
        cloud = planted.in_order()
        cloud.holds(1, [1])
        self.start(Reference)
        self.fill(cloud)
        self.audit("--servers", self.listed(self.rows(cloud)), *NOW, "--plan", self.plan, code=FOUND)
        good = json.loads(self.plan.read_text())

        def refused(plan: object, *options) -> str:
            self.plan.write_text(plan if isinstance(plan, str) else json.dumps(plan))
            output = self.heal("--yes", *options, code=INVALID)
            self.assertEqual(self.held(1), {host(1): planted.PLAIN})
            return output

        self.assertIn("it is not JSON", refused(self.plan.read_text()[:-9]))
        edited = json.loads(json.dumps(good))
        edited["actions"][0]["request"]["path"] = f"/allocations/{uuid(1000)}"
        self.assertIn("action 1: the request is not the one that does this", refused(edited))
        moved = {**good, "service": {**good["service"], "url": "http://elsewhere"}}
        self.assertIn("the plan is for http://elsewhere", refused(moved))
        other = {**moved, "service": {**moved["service"], "providers": [uuid(7), uuid(8)]}}
        self.assertIn("is not the service that was audited", refused(other, "--moved"))
        self.assertIn("hours old", refused({**good, "made": "2026-01-01T00:00:00Z"}))
        self.plan.write_text(json.dumps(moved))
        self.heal("--yes", "--moved", code=CLEAN)
        self.assertEqual(self.held(1), {})

    def test_a_service_that_fails(self) -> None:
        self.url = "http://127.0.0.1:9"
        rows = self.rows(planted.in_order())
        done = self.berth("audit", "--servers", self.listed(rows), "--answer-timeout", "1")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("http://127.0.0.1:9", done.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/server_audit/run",
        description="Audits and heals beside lists of nova's servers, on the reference and on Berth.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    suites.add_option(parser)
    chosen = parser.parse_args()
    return suites.run([sys.modules["__main__"]], chosen.k)


if __name__ == "__main__":
    sys.exit(main())
