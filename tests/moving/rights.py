"""Roles that may not read everything: what is told them, and that following it is enough."""

import contextlib
import re

import sqlalchemy

import sources
from moving_case import Moving, Reference


class Rights(Moving):
    """The grant that a refusal names is the one that is missing."""

    @contextlib.contextmanager
    def source(self, kind):
        """A database of the reference: its URL for an administrator, and one for the role `reader`."""
        with kind() as url:
            with Reference(url).start(f"moving-{self.name}"):
                pass
            self.engine = sqlalchemy.create_engine(url)
            try:
                yield url
            finally:
                self.engine.dispose()

    def write(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))

    def grants(self, output: str) -> list[str]:
        return re.findall("`(grant [^;`]*)`", output)

    def test_mariadb(self) -> None:
        with self.source(sources.mariadb) as url:
            reader = url.replace("root@", "reader:secret@")
            self.write(
                "create user reader@localhost identified by 'secret'", "grant select on placement.users to reader@localhost"
            )
            output = self.refused(reader, "--dry-run")
            self.assertIn("the role 'reader'@'localhost' may not read alembic_version", output)
            self.assertNotIn("db sync", output)
            self.write("grant select on placement.alembic_version to reader@localhost")
            output = self.refused(reader, "--dry-run")
            self.assertIn("may not read resource_classes, traits, projects, consumer_types, ", output)
            for table in ("resource_classes", "traits", "projects", "consumer_types", "placement_aggregates",
                          "resource_provider_traits", "resource_provider_aggregates", "inventories", "consumers",
                          "allocations"):  # fmt: skip
                self.write(f"grant select on placement.{table} to reader@localhost")
            self.write("grant select (id, uuid) on placement.resource_providers to reader@localhost")
            output = self.refused(reader, "--dry-run")
            self.assertIn("may not read resource_providers.name, resource_providers.generation, ", output)
            self.assertEqual(self.grants(output), ["grant select on placement.* to 'reader'@'localhost'"])
            self.write(*self.grants(output))
            self.imports(reader, "--dry-run")

    def test_postgresql(self) -> None:
        with self.source(sources.postgres) as url:
            reader = url.replace("berth@", "reader@")
            self.write("create role reader login", "revoke usage on schema public from public")
            output = self.refused(reader, "--dry-run")
            self.assertIn("the role reader may not use the schema public, in which", output)
            usage, select = self.grants(output)
            self.write(usage)
            output = self.refused(reader, "--dry-run")
            self.assertIn("the role reader may not read alembic_version, resource_classes, traits, ", output)
            self.assertEqual(self.grants(output), [select])
            self.write("grant select on alembic_version to reader")
            output = self.refused(reader, "--dry-run")
            self.assertIn("the role reader may not read resource_classes, traits, ", output)
            self.write(*self.grants(output))
            self.imports(reader, "--dry-run")
