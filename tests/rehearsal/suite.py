"""Rehearse docs/moving.md: the cut-over of a cloud whose services go on working, and the way back.

Nova's, neutron's and cyborg's own clients create trees, claim, migrate and release, first against the old service on
MariaDB, then against Berth, then against the old service on a database that Berth has exported. They reach it through
HAProxy by Keystone's catalog. Nothing that a client was told may be missing afterwards, there may be nothing else, and no
client may see anything but a wait.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from harness import commands, servers, suites
from stage import NOVA_CONF, Stage, until  # It adds the folders of neighbours to the path.

from records import Journals, stored  # isort: skip
import holding  # isort: skip
from everything import differences  # isort: skip
from journal import provider_uuid  # isort: skip

HERE = pathlib.Path(__file__).resolve().parent

# Operations that each thread must do before a step, and after it.
OPERATIONS = 4
# Seconds for the operations before or after a step.
WITHIN_SECONDS = 300
# Seconds that no request may take longer; the machine that tests may be busy.
LONGEST_WAIT = 240


class Show:
    """The commands of docs/moving.md, with what they print, if it is to be shown."""

    on = False

    @classmethod
    def say(cls, text: str) -> None:
        if cls.on:
            print(text, flush=True)


class Rehearsal(unittest.TestCase):
    maxDiff = None
    hosts = 3
    schedulers = 2
    operations = OPERATIONS
    # Follow the old service before; or import while writes are held.
    follows = True
    is_over = False

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rehearsal-"))
        self.addCleanup(self.forget)
        self.stage = self.enterContext(Stage(self.folder))

    def forget(self) -> None:
        """Remove what all wrote, unless something has failed."""
        if self.is_over:
            shutil.rmtree(self.folder)
        else:
            print(f"what all wrote is in {self.folder}", flush=True)

    def berth(self, *arguments, expected: int = 0, **environment: str) -> str:
        """Run `berth`; what it prints."""
        Show.say(f"\n$ berth {' '.join(map(str, arguments))}")
        began = time.monotonic()
        done = commands.berth(*arguments, **environment)
        Show.say(f"{done.stdout}{done.stderr}[{time.monotonic() - began:.1f} s]")
        self.assertEqual(done.returncode, expected, f"{done.args}\n{done.stdout}{done.stderr}")
        return done.stdout

    def follow(self, config: pathlib.Path, **environment: str) -> subprocess.Popen:
        """Start `berth import --follow`, and wait until it has imported."""
        command = [str(servers.find_berth()), "import", "--follow", "--interval", "1", "--config", str(config)]
        Show.say(f"\n$ berth {' '.join(command[1:])} &")
        with open(self.folder / "following.log", "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=servers._environment() | environment)
        self.addCleanup(process.kill)

        def imported() -> bool:
            self.assertIsNone(process.poll(), (self.folder / "following.log").read_text())
            return self.stage.cluster.execute("select count(*) from providers", "berth").strip() != "0"

        until("the import is done", imported)
        return process

    def compare(self, old: str, new: str) -> None:
        """`berth compare` finds no difference."""
        identity = {
            "OS_AUTH_URL": self.stage.keystone.url, "OS_USERNAME": "nova", "OS_PASSWORD": self.stage.passwords["nova"],
            "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_NAME": "service", "OS_PROJECT_DOMAIN_NAME": "Default",
        }  # fmt: skip
        self.berth("compare", old, new, **identity)

    def nova_rows(self, *arguments: str) -> subprocess.Popen:
        """Change nova's databases, see nova_rows.py."""
        self.nova_conf = self.folder / "nova-manage.conf"
        text = self.stage.client_conf("nova").read_text() + NOVA_CONF.format(folder=self.folder)
        self.nova_conf.write_text(text)
        command = [sys.executable, HERE / "nova_rows.py", self.nova_conf, *arguments]
        log = open(self.folder / "nova-rows.log", "a")
        return subprocess.Popen(command, stdout=log, stderr=log, env=servers._environment(), cwd=HERE)

    def instances(self, instances: dict[str, str]) -> None:
        """Have nova's database know these instances, by UUID with their host."""
        rows = self.folder / "rows.json"
        hosts = [*(f"host{nth}" for nth in range(self.hosts)), "quiet", "reshaped"]
        rows.write_text(json.dumps({"hosts": {it: provider_uuid(it) for it in hosts}, "instances": instances}))
        process = self.nova_rows(str(rows))
        self.assertEqual(process.wait(WITHIN_SECONDS), 0, (self.folder / "nova-rows.log").read_text()[-3000:])

    def nova_manage(self, *arguments: str, expected: int) -> str:
        """Run `nova-manage placement`; what it prints."""
        Show.say(f"\n$ nova-manage placement {' '.join(arguments)}")
        command = ["nova-manage", "--config-file", str(self.nova_conf), "placement", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=servers._environment(), timeout=WITHIN_SECONDS
        )
        Show.say(f"{done.stdout}[exit code {done.returncode}]")
        self.assertEqual(done.returncode, expected, f"{arguments}\n{done.stdout}{done.stderr[-3000:]}")
        return done.stdout

    def nova_agrees(self, url: str, journals: Journals) -> None:
        """`nova-manage` finds nothing wrong; and what is wrong, if something is."""
        found = stored(url, self.stage.token())
        names = {uuid: it["name"] for uuid, it in found["providers"].items()}
        roots = {uuid: names[it["root_provider_uuid"]] for uuid, it in found["providers"].items()}
        hosts = {consumer: roots[next(iter(held))] for consumer, held in journals.consumers().items()}
        self.instances(hosts)
        self.nova_manage("audit", "--verbose", expected=0)
        # There is no Neutron here.
        heal = ("heal_allocations", "--dry-run", "--skip-port-allocations", "--verbose")
        self.assertNotIn("[dry-run]", self.nova_manage(*heal, expected=4))
        leaked = next(it for it in hosts if hosts[it] == "host0")
        homeless = "0000000e-0000-4000-8000-000000000001"
        self.instances({it: host for it, host in hosts.items() if it != leaked} | {homeless: "host0"})
        self.assertIn(leaked, self.nova_manage("audit", "--verbose", expected=3))
        created = f"[dry-run] Create allocations for instance {homeless}"
        self.assertIn(created, self.nova_manage(*heal, expected=4))

    def worked(self, files: dict) -> None:
        """Wait until each thread of the clients has done some operations more."""
        before = Journals.read(list(files.values())).operations()

        def more() -> bool:
            journals = Journals.read(list(files.values()))
            self.fine(journals)
            counts = journals.operations()
            wanted = self.schedulers + 3 * self.hosts + 2
            done = {name: count - before.get(name, 0) for name, count in counts.items()}
            slow = {name: count for name, count in done.items() if count < self.operations}
            self.slow = slow
            return len(counts) >= wanted and not slow

        try:
            until("every client has worked", more, within=WITHIN_SECONDS, every=1)
        except TimeoutError:
            self.fail(f"these clients do nothing any more: {self.slow}")

    def fine(self, journals: Journals) -> None:
        errors = journals.errors()
        if errors:
            self.fail("clients saw:\n" + "\n".join(errors[:5]))

    def same(self, what: str, expected: dict, found: dict) -> None:
        """Compare two tables; of those that differ, only the rows that do are shown."""
        rows = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
        wrong = "".join(f"\n{key}\n  expected: {expected.get(key)}\n  stored:   {found.get(key)}" for key in rows)
        self.assertEqual(rows, [], f"{what}: {wrong}")

    def ordinary(self, report: pathlib.Path) -> None:
        """An import found nothing odd. The old service adds a new consumer before its allocations."""
        kinds = {it["kind"] for it in json.loads(report.read_text())["findings"]}
        self.assertLessEqual(kinds, {"consumers that hold nothing"})

    def agrees(self, url: str, journals: Journals) -> None:
        """Every claim that a client was told is stored, and no other; and every inventory."""
        self.fine(journals)
        found = stored(url, self.stage.token())
        held = {consumer: it["holds"] for consumer, it in found["consumers"].items()}
        self.same("allocations", journals.consumers(), held)
        known = journals.providers()
        shown = {
            uuid: {"inventories": it["inventories"], "traits": it["traits"]}
            for uuid, it in found["providers"].items() if uuid in known
        }  # fmt: skip
        self.same("inventories and traits", known, shown)
        # Agents' providers have no inventory, so that nobody says anything about them.
        others = [it["name"] for uuid, it in found["providers"].items() if uuid not in known]
        self.assertEqual([name for name in others if not name.endswith(":agent")], [])

    def waited(self, journals: Journals, what: str, began: float, held: float, released: float, ended: float) -> None:
        """Say how long writes were held, and what the clients noticed of it.

        They were told to be held at `began` and were so from `held` on, to be released at `released` and were so
        at `ended`.
        """
        during = [it for it in journals.requests() if held <= it["at"] - it["seconds"] and it["at"] <= released]
        reads = sum(it["method"] == "GET" for it in during)
        writes = [it for it in during if it["method"] != "GET"]
        longest = journals.longest()
        print(
            f"\n{what}: writes were held for {ended - began:.1f} s; {reads} reads were answered meanwhile; the longest "
            f"request of all took {longest['seconds']:.1f} s ({longest['method']} {longest['path']})",
            flush=True,
        )
        self.assertGreater(reads, 0)
        self.assertEqual(writes, [], "a write was answered while they were held")
        self.assertLess(longest["seconds"], LONGEST_WAIT)

    def test_cut_over_and_back(self) -> None:
        stage, balancer = self.stage, self.stage.balancer
        hosts = [f"host{nth}" for nth in range(self.hosts)]
        conf = stage.placement_conf(stage.source)
        config = self.folder / "berth.toml"
        self.berth("config", "convert", conf, "--database-url", stage.database, "--output", config)
        self.berth("config", "check", "--config", config)
        self.berth("db", "migrate", "--config", config)
        tables = self.nova_rows()
        from_database = {"BERTH_FROM_DATABASE": stage.source}

        with stage.berth(config):
            with stage.old_service(conf), stage.clients("there", hosts, self.schedulers) as files:
                self.worked(files)
                report = self.folder / "report.json"
                self.berth("import", "--config", config, "--dry-run", "--report", report, **from_database)
                self.ordinary(report)
                self.worked(files)

                following = self.follow(config, **from_database) if self.follows else None
                if following:
                    self.worked(files)
                began = time.time()
                balancer.hold_writes("old")
                held = time.time()
                how = ["--finish"] if following else []
                self.berth("import", *how, "--config", config, "--report", report, **from_database)
                if following:
                    self.assertEqual(following.wait(WITHIN_SECONDS), 0, (self.folder / "following.log").read_text())
                    Show.say((self.folder / "following.log").read_text())
                self.assertEqual(self.berth("db", "check", "--config", config), "0 faults\n")
                imported = time.time()
                token = stage.token()
                self.assertEqual(differences(stored(stage.old_url, token), stored(stage.berth_url, token)), [])
                compared = time.time()
                self.compare(stage.old_url, stage.berth_url)
                seen = time.time()
                balancer.switch("old", "berth")
                ended = time.time()
                self.ordinary(report)
                print(
                    f"\nwrites under way ended after {held - began:.1f} s, import and audit took {imported - held:.1f} s, "
                    f"the comparison of all answers {compared - imported:.1f} s, berth compare {seen - compared:.1f} s",
                    flush=True,
                )  # fmt: skip
                self.worked(files)
            # The old service is stopped, and so are the clients.
            there = Journals.read(list(files.values()))
            print("\n", there.by_kind(), len(there.requests()), "requests", flush=True)
            self.waited(there, "there", began, held, seen, ended)
            self.agrees(balancer.url, there)
            self.assertEqual(self.berth("db", "check", "--config", config), "0 faults\n")
            self.assertEqual(tables.wait(WITHIN_SECONDS), 0, (self.folder / "nova-rows.log").read_text()[-3000:])
            self.nova_agrees(balancer.url, there)

            with stage.clients("back", hosts, self.schedulers) as files:
                self.worked(files)
                back = stage.second_source()
                conf = stage.placement_conf(back)
                with stage.old_service(conf):
                    pass
                began = time.time()
                balancer.hold_writes("berth")
                held = time.time()
                self.berth("export", "--config", config, BERTH_TO_DATABASE=back)
                self.enterContext(stage.old_service(conf))
                token = stage.token()
                exported = time.time()
                self.assertEqual(differences(stored(stage.berth_url, token), stored(stage.old_url, token)), [])
                released = time.time()
                balancer.switch("berth", "old")
                ended = time.time()
                self.worked(files)
        again = Journals.read(list(files.values()))
        print("\n", again.by_kind(), len(again.requests()), "requests", flush=True)
        self.waited(again, "back", began, held, released, ended)
        print(f"of these the export took {exported - began:.1f} s", flush=True)
        self.agrees(balancer.url, Journals(there.lines + again.lines))
        self.is_over = True


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/rehearsal/run",
        description="Rehearses the cut-over of docs/moving.md, and the way back, under load.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    suites.add_option(parser)
    parser.add_argument("--show", action="store_true", help="print the commands of berth with what they print")
    parser.add_argument("--hosts", type=int, default=Rehearsal.hosts, help="hosts of the cloud (%(default)s)")
    parser.add_argument(
        "--operations", type=int, default=OPERATIONS,
        help="operations of each client's thread before and after each step (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--plain", action="store_true", help="import while writes are held, without --follow before")
    chosen = parser.parse_args()
    Rehearsal.follows = not chosen.plain
    Show.on, Rehearsal.hosts, Rehearsal.operations = chosen.show, chosen.hosts, chosen.operations
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    return suites.run([holding, sys.modules["__main__"]], chosen.k)


if __name__ == "__main__":
    sys.exit(main())
