"""Rows that only faults of old releases leave behind are written by SQL, and must all be named in the report."""

import collections
import pathlib
import tempfile

import sqlalchemy

import sources
from moving_case import Moving, Reference, Request, berth, send, uuid

# The first schema of a release of its own, Stein's.
FIRST_SCHEMA = "b4ed3a175331"
CREATED = "'2020-01-02 03:04:05'"


class Source(Moving):
    """A database of the reference on SQLite, filled by SQL."""

    def setUp(self) -> None:
        super().setUp()
        self.source = self.enterContext(sources.sqlite())
        with self.reference():
            pass
        self.engine = sqlalchemy.create_engine(self.source)
        self.addCleanup(self.engine.dispose)

    def write(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))

    def class_id(self, name: str) -> int:
        with self.engine.begin() as connection:
            query = sqlalchemy.text("select id from resource_classes where name = :name")
            return connection.execute(query, {"name": name}).scalar_one()

    def provider(self, number: int, name: str, root: object, parent: object = "null") -> str:
        return (
            "insert into resource_providers (id, uuid, name, generation, root_provider_id, "
            f"parent_provider_id, created_at) values ({number}, '{uuid(number)}', '{name}', 7, {root}, "
            f"{parent}, {CREATED})"
        )

    def inventory(self, provider: int, resource_class: int, total: int = 10) -> str:
        return (
            "insert into inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, "
            "max_unit, step_size, allocation_ratio, created_at) values "
            f"({provider}, {resource_class}, {total}, 0, 1, 10, 1, 1.5, {CREATED})"
        )

    def allocation(self, provider: int, consumer: str, resource_class: int, used: int = 1) -> str:
        return (
            "insert into allocations (resource_provider_id, consumer_id, resource_class_id, used, created_at) values "
            f"({provider}, '{consumer}', {resource_class}, {used}, {CREATED})"
        )

    def reference(self):
        """The reference, served from the database."""
        return Reference(self.source).start(f"moving-{self.name}")

    def findings(self, report: dict) -> dict[str, list[str]]:
        found = collections.defaultdict(list)
        for it in report["findings"]:
            found[it["kind"]].append(f"{it['row']}: {it['done']}")
        return dict(found)


class Names(Moving):
    """Names that MariaDB takes for one, as the reference's schema has it do, and Berth does not."""

    def found(self, url: str, query: str) -> list:
        return send(url, Request("GET", f"/resource_providers?{query}", "1.39")).json()["resource_providers"]

    def provider(self, url: str, name: str) -> int:
        return send(url, Request("POST", "/resource_providers", "1.39", body={"name": name})).status

    def claims(self, url: str, number: int, project: str) -> None:
        provider = self.found(url, "name=compute-1")[0]["uuid"]
        body = {
            "allocations": {provider: {"resources": {"VCPU": 1}}}, "project_id": project, "user_id": "u",
            "consumer_generation": None, "consumer_type": "INSTANCE",
        }  # fmt: skip
        claimed = send(url, Request("PUT", f"/allocations/{uuid(number)}", "1.39", body=body))
        self.assertEqual(claimed.status, 204, claimed.body)

    def used(self, url: str, project: str) -> int:
        path = f"/usages?project_id={project}&consumer_type=all"
        return send(url, Request("GET", path, "1.39")).json()["usages"].get("all", {}).get("VCPU", 0)

    def test_what_mariadb_finds_in_other_spellings(self) -> None:
        spellings = ("COMPUTE-1", "comput%C3%A9-1", "compute-1%20")
        with sources.mariadb() as source, Reference(source).start(f"moving-{self.name}") as reference:
            self.assertEqual(self.provider(reference.url, "compute-1"), 200)
            self.assertEqual(self.provider(reference.url, "Compute-1"), 409)
            of = self.found(reference.url, "name=compute-1")[0]["uuid"]
            inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
            send(reference.url, Request("PUT", f"/resource_providers/{of}/inventories", "1.39", body=inventories))
            self.claims(reference.url, 1, "project")
            self.claims(reference.url, 2, "PROJECT")
            for spelling in spellings:
                self.assertEqual(len(self.found(reference.url, f"name={spelling}")), 1, spelling)
            self.assertEqual((self.used(reference.url, "project"), self.used(reference.url, "Project")), (2, 2))
            for options in (("--dry-run",), ()):
                report = self.imports(source, *options)
                self.assertEqual([it for it in report["findings"] if "names" in it["kind"]], [])
                self.assertRegex(report["notes"][-1], r"also in other spellings, such as in upper case \(collation utf8mb3_general_ci\)")
            with self.serving() as server:
                self.assertEqual(len(self.found(server.url, "name=compute-1")), 1)
                for spelling in spellings:
                    self.assertEqual(self.found(server.url, f"name={spelling}"), [], spelling)
                self.assertEqual((self.used(server.url, "project"), self.used(server.url, "PROJECT")), (2, 0))
                self.assertEqual(self.provider(server.url, "Compute-1"), 200)

    def test_pairs_that_are_in_the_database_are_named(self) -> None:
        with sources.mariadb() as source:
            with Reference(source).start(f"moving-{self.name}"):
                pass
            engine = sqlalchemy.create_engine(source)
            self.addCleanup(engine.dispose)
            with engine.begin() as connection:
                # The unique indexes keep such names away, unless somebody has dropped them.
                for statement in (
                    "alter table resource_providers drop index uniq_resource_providers0name",
                    "alter table projects drop index uniq_projects0external_id",
                    "alter table users drop index uniq_users0external_id",
                    "insert into resource_providers (id, uuid, name, generation, root_provider_id) values "
                    f"(1, '{uuid(1)}', 'host', 0, 1), (2, '{uuid(2)}', 'HOST', 0, 2), (3, '{uuid(3)}', 'hóst', 0, 3), "
                    f"(4, '{uuid(4)}', 'host ', 0, 4), (5, '{uuid(5)}', 'other', 0, 5)",
                    "insert into projects (id, external_id) values (1, 'p'), (2, 'P')",
                    "insert into users (id, external_id) values (1, 'u'), (2, 'v'), (3, 'u ')",
                ):
                    connection.execute(sqlalchemy.text(statement))
            for options in (("--dry-run",), ()):
                report = self.imports(source, *options)
                kind = "names that are one to the old database"
                found = [(it["row"], it["done"]) for it in report["findings"] if it["kind"] == kind]
                done = "two: each is found only as it is written"
                self.assertEqual(found, [(row, done) for row in (
                    'provider "host" and "HOST"', 'provider "host" and "hóst"', 'provider "host" and "host "',
                    'project "p" and "P"', 'user "u" and "u "',
                )])  # fmt: skip
            self.assertEqual(self.rows("select count(*) from providers"), "5")


class Odd(Source):
    """Rows that Berth stores differently, or not at all."""

    def test_every_odd_row_is_brought_over_or_named(self) -> None:
        vcpu, disk = self.class_id("VCPU"), self.class_id("DISK_GB")
        consumer = "insert into consumers (id, uuid, project_id, user_id, generation) values "
        self.write(
            # A table so small that its fingerprint could be its text.
            "insert into projects (id, external_id) values (1, 'p'), (2, 'a' || char(0) || 'b')",
            "insert into users (id, external_id) values (1, 'u')",
            self.provider(1, "root", "null"),
            self.provider(2, "child", 2, 1),
            self.provider(3, "nul\0", 3).replace("nul\0'", "nul' || char(0) || 'b'"),
            self.provider(4, "orphan", 4, 99),
            "insert into placement_aggregates (id, uuid) values (1, 'not-a-uuid'), "
            f"(2, '{uuid(50).upper()}'), (3, '{uuid(50)}'), (4, '{uuid(51)}')",
            "insert into resource_provider_aggregates (resource_provider_id, aggregate_id) values "
            "(1, 1), (1, 2), (1, 3), (1, 77)",
            f"insert into traits (id, name, created_at) values (9001, 'HW_NOBODY_KNOWS', {CREATED})",
            "insert into resource_provider_traits (resource_provider_id, trait_id) values (1, 9001), (1, 9999)",
            self.inventory(1, vcpu),
            self.inventory(2, vcpu, total=0),
            consumer + f"(1, '{uuid(101)}', 1, 1, 5), (2, '{uuid(102)}', 1, 1, 6), "
            f"(3, '{uuid(103).upper()}', 1, 1, 7), (4, '{uuid(104)}', 44, 1, 8)",
            self.allocation(1, uuid(101), vcpu, 20),
            self.allocation(1, uuid(103).upper(), vcpu),
            self.allocation(1, uuid(104), vcpu),
            self.allocation(1, uuid(105), vcpu, 2),
            self.allocation(1, uuid(105), vcpu, 3),
            self.allocation(1, "no-uuid", vcpu),
            self.allocation(1, uuid(101), disk),
            self.allocation(66, uuid(101), vcpu),
        )
        found = self.findings(self.imports(self.source))
        nobody = "00000000-0000-0000-0000-000000000000"
        u = uuid
        self.assertEqual(found, {
            "providers whose root is missing or wrong": [
                f"provider {u(1)}, root null: its root is {u(1)}, as its parents say",
                f"provider {u(2)}, root {u(2)}: its root is {u(1)}, as its parents say",
            ],
            "providers whose parent is gone": [f"provider {u(4)}, parent 99: it is the root of its tree"],
            "names with a NUL": [
                "project a\ufffdb: the NUL is replaced by U+FFFD",
                "provider nul\ufffdb: the NUL is replaced by U+FFFD",
            ],
            "aggregates whose UUID has another spelling": [
                f"aggregate {u(50).upper()} of provider {u(1)}: shown as it is, and found also as {u(50)}"
            ],
            "members of what is no aggregate": [
                f"provider {u(1)}, aggregate 77: left out",
                f"provider {u(1)}, aggregate not-a-uuid: left out",
            ],
            "aggregates without members": [f"aggregate {u(51)}: left out: nothing shows it"],
            "resource classes and traits that are neither custom nor known here": [
                "trait HW_NOBODY_KNOWS: kept as it is"
            ],
            "traits of what is gone": [f"provider {u(1)}, trait 9999: left out"],
            "inventories that cannot be": [
                f"provider {u(2)}, VCPU: total 0, reserved 0, min_unit 1, max_unit 10, step_size 1, "
                "allocation_ratio 1.5: left out"
            ],
            "inventories with more allocated than there is": [
                f"provider {u(1)}, VCPU: 27 allocated, capacity 15: kept as it is"
            ],
            "allocations that cannot be": [
                f"consumer {u(101)}: 1 of DISK_GB on provider {u(1)}: left out: the provider has no "
                "inventory of it",
                f"consumer {u(101)}: 1 of VCPU on provider 66 (gone): left out: there is no such provider",
                f"consumer no-uuid: 1 of VCPU on provider {u(1)}: left out: the consumer is no UUID",
            ],
            "allocations that stand several times": [
                f"consumer {u(105)}: 2 rows of VCPU on provider {u(1)}: one allocation of 5"
            ],
            "consumers without a row": [
                f"consumer {u(105)}: has project and user {nobody}, and generation 0"
            ],
            "consumers whose project, user or type is gone": [
                f"consumer {u(104)}: has project {nobody}, user u and type none"
            ],
            "consumers whose UUID has another spelling": [
                f"consumer {u(103).upper()}: shown as {u(103)}"
            ],
            "consumers that hold nothing": [f"consumer {u(102)}: left out: nothing shows it"],
        })
        self.assertEqual(berth("db", "check", "--database-url", self.url).stdout, "0 faults\n")
        self.assertEqual(self.rows("select used from inventories"), "27")
        self.assertEqual(self.rows(f"select generation from consumers where uuid = '{u(101)}'"), "5")
        self.assertEqual(
            self.rows("select extract(epoch from updated_at)::bigint from providers limit 1"), "1577934245"
        )
        # The next provider gets a key of its own.
        with self.serving() as server:
            made = send(server.url, Request("POST", "/resource_providers", "1.39", body={"name": "x"}))
            self.assertEqual(made.status, 200)

    def test_a_dry_run_reports_and_writes_nothing(self) -> None:
        self.write(self.provider(1, "root", "null"))
        report = self.imports(self.source, "--dry-run")
        self.assertEqual((report["dry_run"], report["written"], len(report["findings"])), (True, [], 1))
        self.assertEqual(self.rows("select count(*) from providers"), "0")
        self.assertIn("nothing was written (--dry-run)", self.words)

    def test_a_report_stays_until_there_is_a_new_one_and_is_printed_in_any_case(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "report.json"
            file.write_text("the last one")
            done = self.tries("sqlite:////no/such/file", "--report", file)
            self.assertEqual((done.returncode, file.read_text()), (1, "the last one"))
            self.assertEqual(self.tries(self.source, "--dry-run", "--report", file).returncode, 0)
            self.assertIn('"dry_run": true', file.read_text())
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [file])
        done = self.tries(self.source, "--report", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)
        self.assertIn("done, in ", done.stdout)

    def test_what_cannot_be_imported_is_refused(self) -> None:
        self.write(self.provider(1, "root", 1))
        self.write("update resource_providers set parent_provider_id = 1")
        self.assertIn(f"are their own ancestors, or below such providers: {uuid(1)}", self.refused(self.source))
        self.write("update resource_providers set parent_provider_id = null, uuid = 'x'")
        self.assertIn("the UUID of provider x (root) is none", self.refused(self.source))
        self.write(f"update resource_providers set uuid = '{uuid(1)}', generation = 'many'")
        self.assertIn('resource_providers, row 1: generation is not a number: "many"', self.refused(self.source))
        self.write("update resource_providers set generation = 7", self.inventory(1, self.class_id("VCPU")))
        for wrong in ("5000000000", "1.5"):
            self.write(f"update inventories set total = {wrong}")
            for options in ((), ("--dry-run",)):
                output = self.refused(self.source, *options)
                self.assertIn(f'inventories, row 1: total is not a 32-bit integer: "{wrong}"', output)
        self.write("delete from alembic_version")
        self.assertIn("the schema has no version", self.refused(self.source))
        self.write("insert into alembic_version values ('0123456789ab')")
        self.assertIn("the schema has version 0123456789ab, which Berth does not know", self.refused(self.source))
        self.write(f"update alembic_version set version_num = '{FIRST_SCHEMA}'", "drop table inventories")
        self.assertIn("is not complete: it has no table inventories", self.refused(self.source))
        self.write("create table instances (id integer)")
        self.assertIn("this is a nova database", self.refused(self.source))
        self.assertIn("unable to open database file", self.refused("sqlite:////no/such/file"))
        other = self.cluster.url(self.name).replace("postgres://", "postgresql://")
        self.assertIn("this is a database of Berth's already", self.refused(other))
        with tempfile.NamedTemporaryFile() as empty:
            self.assertIn("it has no table resource_providers", self.refused(f"sqlite:///{empty.name}"))

    def test_berths_database_must_be_empty(self) -> None:
        self.write(self.provider(1, "root", 1))
        self.imports(self.source)
        before = self.rows("select count(*) from providers")
        done = self.tries(self.source)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not empty: it has 1 providers and 0 consumers", done.stderr)
        self.assertEqual(self.rows("select count(*) from providers"), before)

    def test_a_replica_that_runs_sees_what_was_imported(self) -> None:
        self.write(self.provider(1, "root", 1))
        with self.serving() as server:
            self.imports(self.source)
            found = send(server.url, Request("GET", f"/resource_providers/{uuid(1)}", "1.39"))
            self.assertEqual(found.status, 200)
