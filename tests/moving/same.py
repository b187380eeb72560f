"""After an import, Berth answers as the reference does; and the reference as Berth, after an export.

Importing what was exported gives what was there before.
"""

import random

import sources
from moving_case import Moving, Reference, Request, berth, send


class TheSame(Moving):
    """On each kind of database."""

    def test_sqlite(self) -> None:
        self.moves(sources.sqlite, seed=1)

    def test_postgresql(self) -> None:
        self.moves(sources.postgres, seed=2)

    def test_mariadb(self) -> None:
        self.moves(sources.mariadb, seed=3)

    def moves(self, source, seed: int) -> None:
        rng = random.Random(f"moving-{seed}")
        with source() as url, Reference(url).start(f"moving-{seed}") as reference:
            cloud = self.fills(rng, reference.url)
            report = self.imports(url)
            read = {it["table"]: it["rows"] for it in report["read"]}
            self.assertGreater(read["allocations"], 0)
            with self.serving() as server, source() as other:
                self.compares(cloud, reference.url, server.url)
                # An empty database, with the names that the service adds when it starts.
                with Reference(other).start(f"moving-{seed}-empty"):
                    pass
                done = self.exports(other)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.comes_back(other)
                with Reference(other).start(f"moving-{seed}-back") as back:
                    self.compares(cloud, back.url, server.url)
                    # New rows get keys of their own.
                    body = {"name": "after the export"}
                    made = send(back.url, Request("POST", "/resource_providers", "1.39", body=body))
                    self.assertEqual(made.status, 200)
                done = self.exports(other)
                self.assertEqual(done.returncode, 1)
                self.assertIn("is not empty: ", done.stderr)
        self.assertEqual(berth("db", "check", "--database-url", self.url).returncode, 0)

    def comes_back(self, exported: str) -> None:
        """What was exported is imported into another database of Berth's, which then has the same."""
        url = self.another(f"{self.name}_again")
        done = berth("import", "--from-database", exported, "--database-url", url)
        self.assertEqual(done.returncode, 0, done.stderr)
        before, after = self.stored(self.name), self.stored(f"{self.name}_again")
        self.assertGreater(len(before["allocations"]), 0)
        for table, rows in before.items():
            self.assertEqual(after[table], rows, table)
