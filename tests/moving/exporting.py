"""`berth export` into a database that cannot hold everything as Berth has it, or that has something already."""

import contextlib

import sqlalchemy

import sources
from moving_case import Moving, Reference, Request, send


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
