"""`berth export` into a database that cannot hold everything as Berth has it, or that has something already."""

import contextlib

import sqlalchemy

import sources
from moving_case import Moving, Reference, Request, send, uuid


class Exporting(Moving):
    """What Berth has is written by clients, and read from the database."""

    def sends(self, url: str, method: str, path: str, body: object = None):
        answer = send(url, Request(method, path, "1.39", body=body))
        self.assertLess(answer.status, 300, f"{method} {path}: {answer.body}")

    @contextlib.contextmanager
    def target(self, source=sources.sqlite):
        """An empty database of the reference."""
        with source() as url:
            with Reference(url).start(f"moving-{self.name}"):
                pass
            yield url

    def found(self, url: str, sql: str) -> list[tuple]:
        engine = sqlalchemy.create_engine(url)
        with engine.begin() as connection:
            result = connection.execute(sqlalchemy.text(sql))
            rows = [tuple(row) for row in result] if result.returns_rows else []
        engine.dispose()
        return rows

    def not_exported(self, target: str) -> str:
        done = self.exports(target)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(self.found(target, "select * from resource_providers"), [])
        return done.stderr

    def test_custom_names_of_the_target_are_not_lost(self) -> None:
        with self.target() as target:
            self.found(target, "insert into traits (name) values ('CUSTOM_KEPT'), ('CUSTOM_ALSO')")
            self.found(target, "insert into resource_classes (name) values ('CUSTOM_KEPT')")
            with self.serving() as server:
                self.sends(server.url, "PUT", "/traits/CUSTOM_ALSO")
                self.assertIn(
                    "resource_classes has 1 custom names that Berth does not have (CUSTOM_KEPT)",
                    self.not_exported(target),
                )
                self.sends(server.url, "PUT", "/resource_classes/CUSTOM_KEPT")
                self.assertIn("traits has 1 custom names", self.not_exported(target))
                left = "select count(*) from traits where name like 'CUSTOM%'"
                self.assertEqual(self.found(target, left), [(2,)])
                self.sends(server.url, "PUT", "/traits/CUSTOM_KEPT")
            done = self.exports(target)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.found(target, left), [(2,)])

    def test_a_schema_without_types_says_what_it_loses(self) -> None:
        with self.target() as target, self.serving() as server:
            self.found(target, "update alembic_version set version_num = '611cd6dffd7b'")
            host, consumer = uuid(1), uuid(101)
            self.sends(server.url, "POST", "/resource_providers", {"name": "host", "uuid": host})
            inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 6}}}
            self.sends(server.url, "PUT", f"/resource_providers/{host}/inventories", inventories)
            body = {"allocations": {host: {"resources": {"VCPU": 2}}}, "consumer_generation": None}
            body |= {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
            self.sends(server.url, "PUT", f"/allocations/{consumer}", body)
            done = self.exports(target)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("the schema has no types of consumers: those of 1 consumers were left out", done.stdout)

    MEMBERS = (
        "select p.uuid, a.uuid from resource_provider_aggregates m "
        "join resource_providers p on p.id = m.resource_provider_id "
        "join placement_aggregates a on a.id = m.aggregate_id order by p.uuid, a.uuid"
    )

    def spells(self, url: str, wanted: dict[int, list[str]]) -> None:
        """Have Berth store providers with aggregates in these spellings."""
        for number, aggregates in wanted.items():
            body = {"name": f"host {number}", "uuid": uuid(number)}
            self.sends(url, "POST", "/resource_providers", body)
            body = {"aggregates": aggregates, "resource_provider_generation": 0}
            self.sends(url, "PUT", f"/resource_providers/{uuid(number)}/aggregates", body)

    def members(self, target: str) -> list[tuple]:
        return [(int(of[-12:]), aggregate) for of, aggregate in self.found(target, self.MEMBERS)]

    def test_mariadb_gets_the_spellings_of_aggregates_that_it_tells_apart(self) -> None:
        with self.target(sources.mariadb) as target, self.serving() as server:
            one, other = "abcdef00-0000-4000-8000-000000000001", "abcdef00-0000-4000-8000-000000000002"
            third = "abcdef00-0000-4000-8000-000000000003"
            plain = one.replace("-", "")
            self.spells(server.url, {
                1: [one], 2: [one.upper(), other], 3: [plain], 4: [plain.upper()],
                5: [f"urn:uuid:{other}"], 6: [third.upper()], 7: [third.upper()],
            })  # fmt: skip
            done = self.exports(target)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("aggregates that are written in another spelling: 3", done.stdout)
            self.assertIn(f"aggregate {one.upper()} of provider {uuid(2)}: written as {one}", done.stdout)
            self.assertIn(f"aggregate {plain.upper()} of provider {uuid(4)}: written as {plain}", done.stdout)
            self.assertIn(f"aggregate urn:uuid:{other} of provider {uuid(5)}: written as {other}", done.stdout)
            # With and without dashes are two, and upper case stays where it meets no lower case.
            self.assertEqual(self.members(target), [
                (1, one), (2, one), (2, other), (3, plain), (4, plain), (5, other), (6, third.upper()),
                (7, third.upper()),
            ])  # fmt: skip

    def test_mariadb_with_an_exact_collation_gets_all_spellings(self) -> None:
        with self.target(sources.mariadb) as target, self.serving() as server:
            exact = "modify uuid varchar(36) character set utf8mb3 collate utf8mb3_bin not null"
            self.found(target, f"alter table placement_aggregates {exact}")
            one = "abcdef00-0000-4000-8000-000000000001"
            self.spells(server.url, {1: [one], 2: [one.upper()]})
            done = self.exports(target)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("another spelling", done.stdout)
            self.assertEqual(self.members(target), [(1, one), (2, one.upper())])

    def test_names_that_mariadb_cannot_hold_are_named(self) -> None:
        with self.target(sources.mariadb) as target, self.serving() as server:
            for name in ("Host", "hOST"):
                self.sends(server.url, "POST", "/resource_providers", {"name": name})
            self.assertIn('"Host" and "hOST"', self.not_exported(target))
            self.rows("delete from providers where name = 'hOST'")
            self.sends(server.url, "POST", "/resource_providers", {"name": "rack \N{ROCKET}"})
            self.assertIn('1 names have: "rack \N{ROCKET}"', self.not_exported(target))
