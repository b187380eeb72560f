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

    def test_mariadb_gets_one_spelling_of_each_aggregate(self) -> None:
        with self.target(sources.mariadb) as target, self.serving() as server:
            one, other = "abcdef00-0000-4000-8000-000000000001", "abcdef00-0000-4000-8000-000000000002"
            wanted = {1: [one], 2: [one.upper(), other], 3: [one.replace("-", "")], 4: [f"urn:uuid:{other}"]}
            for number, aggregates in wanted.items():
                path = f"/resource_providers/{uuid(number)}"
                self.sends(server.url, "POST", "/resource_providers", {"name": f"host {number}", "uuid": uuid(number)})
                body = {"aggregates": aggregates, "resource_provider_generation": 0}
                self.sends(server.url, "PUT", f"{path}/aggregates", body)
            done = self.exports(target)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("aggregates that are written in another spelling: 3", done.stdout)
            self.assertIn(f"aggregate urn:uuid:{other} of provider {uuid(4)}: written as {other}", done.stdout)
            members = (
                "select p.uuid, a.uuid from resource_provider_aggregates m "
                "join resource_providers p on p.id = m.resource_provider_id "
                "join placement_aggregates a on a.id = m.aggregate_id order by p.uuid, a.uuid"
            )
            expected = [(1, one), (2, one), (2, other), (3, one), (4, other)]
            self.assertEqual(self.found(target, members), [(uuid(number), it) for number, it in expected])

    def test_names_that_mariadb_cannot_hold_are_named(self) -> None:
        with self.target(sources.mariadb) as target, self.serving() as server:
            for name in ("Host", "hOST"):
                self.sends(server.url, "POST", "/resource_providers", {"name": name})
            self.assertIn('"Host" and "hOST"', self.not_exported(target))
            self.rows("delete from providers where name = 'hOST'")
            self.sends(server.url, "POST", "/resource_providers", {"name": "rack \N{ROCKET}"})
            self.assertIn('1 names have: "rack \N{ROCKET}"', self.not_exported(target))
