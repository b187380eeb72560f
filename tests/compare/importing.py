"""Import what a service shows over its API, also while it is in use, and compare afterwards."""

import contextlib
import json
import pathlib
import subprocess
import tempfile
import threading

import sqlalchemy
from harness.commands import berth, imported, serving
from harness.servers import Reference, find_berth

from comparing import Both
from faulty import faulty
from filling import CONSUMERS, HOSTS, Cloud, ask, consumer, host, inventory


class Importing(Both):
    """The reference, filled, and a database of Berth's for each test."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cluster = cls.own._cluster

    def setUp(self) -> None:
        self.name = self.id().rsplit(".", 1)[1]
        self.cluster.create(self.name, "berth_template")
        self.addCleanup(self.cluster.drop, self.name)
        self.url = self.cluster.url(self.name)

    def tries(self, source: str, *options) -> subprocess.CompletedProcess:
        return berth("import", "--from-api", source, "--database-url", self.url, *options)

    def imports(self, source: str, *options) -> dict:
        """Import, which must succeed; the report."""
        self.words, report = imported(self, self.tries, source, *options)
        return report

    def refused(self, source: str, *options) -> str:
        """Try to import, which must be refused and write nothing; what is said."""
        done = self.tries(source, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(self.rows("select count(*) from providers"), "0")
        return done.stderr

    def is_kept(self) -> bool:
        """Whether there is something that an interrupted import has left."""
        return self.rows("select count(*) from pg_namespace where nspname like 'berth_import%'") != "0"

    def rows(self, sql: str) -> str:
        return self.cluster.execute(sql, self.name).strip()

    def is_the_same(self, source: str, *options) -> None:
        """Compare the service with Berth over the database, with the command that the report names."""
        self.assertEqual(berth("db", "check", "--database-url", self.url).stdout, "0 faults\n")
        with serving(f"compare-{self.name}", self.url) as server:
            self.compares("--sample", "50", *options, left=source, right=server.url)

    def test_everything_that_the_api_shows(self) -> None:
        report = self.imports(self.reference.url)
        read = {it["table"]: it["rows"] for it in report["read"]}
        self.assertEqual((read["resource_providers"], read["consumers"]), (2 * HOSTS + 1, CONSUMERS))
        self.assertEqual((report["findings"], report["schema"]), ([], "API 1.39"))
        self.assertEqual(len(report["notes"]), 3)
        self.assertIn("the API at 1.39 does not show consumers that hold nothing", self.words)
        old = self.reference.url
        self.assertIn(f": berth compare {old} http://BERTH:8778\n", self.words)
        self.is_the_same(old, "--times")
        self.assertIn("Berth's database is not empty: it has 13 providers", self.tries(old).stderr)
        self.imports(old, "--replace")
        self.is_the_same(old, "--times")

    def test_a_dry_run_writes_nothing(self) -> None:
        report = self.imports(self.reference.url, "--dry-run")
        self.assertEqual((report["dry_run"], report["written"]), (True, []))
        self.assertIn("nothing was written (--dry-run)", self.words)
        self.assertNotIn("berth compare", self.words)
        self.assertEqual(self.rows("select count(*) from providers"), "0")

    def test_from_berth(self) -> None:
        self.imports(self.berth.url)
        self.is_the_same(self.berth.url, "--times")

    def test_an_older_service(self) -> None:
        root = {"id": "v1.0", "min_version": "1.0", "max_version": "1.27", "status": "CURRENT", "links": []}
        root = json.dumps({"versions": [root]}).encode()
        with faulty(self.reference.url, lambda count, path: (200, root) if path == "/" else None) as server:
            self.imports(server.url)
        self.assertIn("the API at 1.27 does not show the generations of consumers", self.words)
        self.assertIn("the API at 1.27 does not show the types of consumers", self.words)
        self.assertEqual(self.rows("select distinct generation, consumer_type_id from consumers"), "0|")

    def test_allocations_that_the_service_shows_nowhere(self) -> None:
        with self.engine.begin() as connection:
            kept = connection.execute(
                sqlalchemy.text("select * from consumers where uuid = :uuid"), {"uuid": consumer(1)}
            ).mappings().one()
            connection.execute(sqlalchemy.text("delete from consumers where uuid = :uuid"), {"uuid": consumer(1)})
        try:
            report = self.imports(self.reference.url)
            self.assertEqual({it["kind"] for it in report["findings"]}, {"usages that no consumer explains"})
            rows = {it["row"] for it in report["findings"]}
            self.assertIn(f"provider {host(2)}: 2048 of MEMORY_MB, 2 of VCPU", rows)
        finally:
            columns = ", ".join(kept)
            values = ", ".join(f":{name}" for name in kept)
            with self.engine.begin() as connection:
                connection.execute(
                    sqlalchemy.text(f"insert into consumers ({columns}) values ({values})"), dict(kept)
                )

    def test_what_the_service_shows_nowhere_is_explained(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = f"sqlite:///{folder}/placement.sqlite"
            with Reference(source).start(f"compare-{self.name}") as reference:
                Cloud(reference.url).fill()
                engine = sqlalchemy.create_engine(source)
                self.addCleanup(engine.dispose)
                vcpu = "(select id from resource_classes where name = 'VCPU')"
                with engine.begin() as connection:
                    for statement in (
                        # One consumer without a row, with so much that its host is nearly full; one without a user;
                        # and one that has something of a provider that is gone.
                        f"update allocations set used = 66 where consumer_id = '{consumer(1)}' and used = 2",
                        f"delete from consumers where uuid = '{consumer(1)}'",
                        f"update consumers set user_id = 9999 where uuid = '{consumer(4)}'",
                        "insert into allocations (resource_provider_id, consumer_id, resource_class_id, used) values "
                        f"(9999, '{consumer(2)}', {vcpu}, 3)",
                    ):
                        connection.execute(sqlalchemy.text(statement))
                report = self.imports(reference.url)
                rows = {it["row"] for it in report["findings"]}
                self.assertIn("project project-2: 3 of VCPU", rows)
                self.assertIn("project project-1: 1 of CUSTOM_FPGA, 20 of DISK_GB, 2048 of MEMORY_MB, 2 of VCPU", rows)
                file = pathlib.Path(folder) / "report.json"
                file.write_text(json.dumps(report))
                with serving(f"compare-{self.name}", self.url) as server:
                    sides = {"left": reference.url, "right": server.url}
                    options = ("--sample", "100", "--import-report", str(file))
                    found = self.compares(*options, **sides)
                    explained = {it["subject"]: it["explained"] for it in found["differences"] if it["explained"]}
                    self.assertLessEqual({"usages", "project_usages", "candidates"}, explained.keys())
                    self.assertTrue(any("/used" in it["place"] for it in found["explained"]))
                    self.assertTrue(any("allocation_requests" in it["place"] for it in found["explained"]))
                    # Another amount than the one that was left out is a difference.
                    with engine.begin() as connection:
                        connection.execute(sqlalchemy.text(
                            f"update allocations set used = 4 where consumer_id = '{consumer(2)}' and used = 3"))
                    found = self.compares(*options, code=1, **sides)
                    self.assertEqual({it["subject"] for it in found["shown"]}, {"project_usages"})

    @contextlib.contextmanager
    def changing(self, changes):
        """A service of its own, with a proxy that changes it before it passes certain requests on."""
        with Reference().start(f"compare-{self.name}") as reference:
            cloud = Cloud(reference.url)
            cloud.fill()
            lock = threading.Lock()

            def change(count: int, path: str) -> None:
                with lock:
                    changes(cloud, count, path)

            with faulty(reference.url, change) as server:
                yield reference.url, server.url

    def test_what_changes_is_read_again(self) -> None:
        def changes(cloud: Cloud, count: int, path: str) -> None:
            if count == 40:
                cloud.claim(50, {host(1): {"VCPU": 1}})
                ask(cloud.url, "DELETE", f"/allocations/{consumer(2)}")
            if count == 60:
                cloud.put(host(3), "traits", traits=["CUSTOM_UNUSED"])
                cloud.provider(host(70), "late")
                cloud.put(host(70), "inventories", inventories={"VCPU": inventory(4)})
            if count == 90:
                ask(cloud.url, "DELETE", f"/allocations/{consumer(3)}")
                cloud.claim(51, {host(70): {"VCPU": 1}})

        with self.changing(changes) as (direct, proxied):
            self.imports(proxied)
            self.is_the_same(direct, "--times")

    def test_an_import_that_is_killed_goes_on(self) -> None:
        asked, running = [], []

        def kill(cloud: Cloud, count: int, path: str) -> None:
            asked.append(path)
            if running and sum(it.startswith("/allocations/") for it in asked) == 10:
                running.pop().kill()

        with self.changing(kill) as (direct, proxied):
            command = [find_berth(), "import", "--from-api", proxied, "--database-url", self.url]
            running.append(subprocess.Popen([str(part) for part in command], stderr=subprocess.DEVNULL))
            self.assertEqual(running[0].wait(60), -9)
            self.assertTrue(self.is_kept())
            self.assertEqual(self.rows("select count(*) from providers"), "0")
            # Since the providers were read: one consumer comes, and one goes.
            cloud = Cloud(direct)
            cloud.claim(50, {host(1): {"VCPU": 1}})
            ask(direct, "DELETE", f"/allocations/{consumer(3)}")
            asked.clear()
            self.imports(proxied)
            self.assertIn("continuing the import started at", self.words)
            self.assertRegex(self.words, r"[1-9]\d* responses had been read before")
            # What has changed is read again, and nothing else of the providers.
            read = sum(path.endswith("/inventories") for path in asked)
            self.assertTrue(1 <= read <= 4, read)
            self.assertFalse(self.is_kept())
            self.is_the_same(direct, "--times")

    def test_what_always_changes_is_refused(self) -> None:
        lists = [0]

        def changes(cloud: Cloud, count: int, path: str) -> None:
            if path == "/resource_providers":
                # The same traits again would be no change.
                cloud.put(host(1), "traits", traits=[f"CUSTOM_{'RED' if lists[0] % 2 else 'BLUE'}"])
                lists[0] += 1

        with self.changing(changes) as (_direct, proxied):
            self.assertIn("the service changes faster than it can be read: after 6 rounds", self.refused(proxied))

    def test_a_service_that_fails_midway(self) -> None:
        late = lambda count, path: (500, b"Out of luck.") if count > 50 else None  # noqa: E731
        with faulty(self.reference.url, late) as server:
            self.assertIn(": 500 Internal Server Error: Out of luck.", self.refused(server.url))
        nothing = lambda count, path: (200, b"{}") if path.endswith("/usages") else None  # noqa: E731
        with faulty(self.reference.url, nothing) as server:
            output = self.refused(server.url)
            self.assertIn("/usages: the response is not from a placement service", output)
            self.assertIn("the response lacks usages", output)
        # What had been read is kept until it is given up, or another service is read.
        self.assertTrue(self.is_kept())
        self.imports(self.berth.url)
        self.assertIn("the rows of an import from another source were discarded", self.words)
        self.assertFalse(self.is_kept())

    def test_what_cannot_be_read_is_refused(self) -> None:
        with faulty(None, lambda count, path: (200, b"<html>")) as server:
            self.assertIn("the response is not from a placement service", self.refused(server.url))
        with faulty(self.reference.url, lambda count, path: None if path == "/" else (401, b"no")) as server:
            self.assertIn("/resource_providers: 401 Unauthorized: no", self.refused(server.url))
        self.assertIn("is not a URL, so it is the name of a cloud", self.refused("nowhere"))
        root = b'{"versions": [{"id": "v1.0", "min_version": "1.0", "max_version": "1.10"}]}'
        with faulty(None, lambda count, path: (200, root)) as server:
            self.assertIn("the highest microversion is 1.10, and 1.14 is needed", self.refused(server.url))
        done = self.tries(self.reference.url, "--from-database", self.source)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot be used with", done.stderr)
