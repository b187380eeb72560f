"""What the tests of moving have in common: Berth's side, and both services asked alike."""

import collections
import random
import subprocess
import sys
import unittest

from harness.commands import berth, imported, serving
from harness.environment import REPOSITORY
from harness.servers import Berth, Reference, _environment, find_berth  # noqa: F401

# Before this folder, which has a module of that name as well.
sys.path.insert(0, str(REPOSITORY / "tests" / "differential"))
import routes  # noqa: E402
import suite as differential  # noqa: E402
from cloud import Cloud  # noqa: E402
from exchange import Answer, Request, send  # noqa: E402, F401

# What an import fills, with the times, in the order of the keys where lists have it.
STORED = {
    "resource_classes": "select name, updated_at from resource_classes where id >= 10000 order by name",
    "traits": "select name, updated_at from traits where id >= 10000 order by name",
    "providers": "select p.uuid, p.name, p.generation, parent.uuid, root.uuid, p.updated_at from providers p "
    "join providers root on root.id = p.root_id left join providers parent on parent.id = p.parent_id order by p.id",
    "provider_traits": "select p.uuid, t.name from provider_traits m join providers p on p.id = m.provider_id "
    "join traits t on t.id = m.trait_id order by 1, 2",
    "provider_aggregates": "select p.uuid, m.aggregate, m.spelling from provider_aggregates m "
    "join providers p on p.id = m.provider_id order by 1, 2, 3",
    "inventories": "select p.uuid, c.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, "
    "i.allocation_ratio, i.used, i.updated_at from inventories i join providers p on p.id = i.provider_id "
    "join resource_classes c on c.id = i.class_id order by 1, 2",
    "consumers": "select c.uuid, c.generation, p.external_id, u.external_id, t.name from consumers c "
    "join projects p on p.id = c.project_id join users u on u.id = c.user_id "
    "left join consumer_types t on t.id = c.consumer_type_id order by 1",
    "allocations": "select c.uuid, p.uuid, k.name, a.used, a.updated_at from allocations a "
    "join consumers c on c.id = a.consumer_id join providers p on p.id = a.provider_id "
    "join resource_classes k on k.id = a.class_id order by 1, 2, 3",
}
REQUESTS = 250
CANDIDATES = 100


class Filling(differential.Both):
    """The reference alone, asked as if it were two servers."""

    def __init__(self, url: str) -> None:
        super().__init__(url, url, differential.Tally(), "moving")

    def ask(self, request: Request) -> Answer:
        return self._send(self._reference, request)


class Comparing(differential.Both):
    """Both services. What the reference fails at is not compared."""

    failed = 0

    def ask(self, request: Request) -> Answer:
        answer = self._send(self._reference, request)
        if answer.status >= 500:
            self.failed += 1
            return answer
        return super().ask(request)


class Moving(unittest.TestCase):
    """Berth's side: one cluster, and for each test a database that is current and empty."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.own = cls.enterClassContext(Berth())

    def setUp(self) -> None:
        self.name = self.id().rsplit(".", 1)[1]
        self.cluster = self.own._cluster
        self.cluster.create(self.name, "berth_template")
        self.addCleanup(self.cluster.drop, self.name)
        self.url = self.cluster.url(self.name)

    def imports(self, source: str, *options) -> dict:
        """Import, which must succeed; the report. A dry run leaves nothing behind."""
        before = self.left_behind()
        self.words, report = imported(self, self.tries, source, *options)
        if "--dry-run" in options:
            self.assertEqual(self.left_behind(), before)
        return report

    def left_behind(self) -> str:
        """What an import that writes nothing must not change, beside rows: sequences, and whether rows are kept."""
        return self.rows(
            "select sequencename, last_value from pg_sequences where schemaname = 'public' union all "
            "select nspname, null from pg_namespace where nspname like 'berth_import%' order by 1"
        )

    def berth(self, *arguments) -> subprocess.CompletedProcess:
        """Run `berth` on the test's database."""
        return berth(*arguments, "--database-url", self.url)

    def tries(self, source: str, *options) -> subprocess.CompletedProcess:
        return berth("import", "--from-database", source, "--database-url", self.url, *options)

    def exports(self, target: str) -> subprocess.CompletedProcess:
        return berth("export", "--to-database", target, "--database-url", self.url)

    def refused(self, source: str, *options) -> str:
        """Try to import, which must be refused and write nothing; what is said."""
        before = self.left_behind()
        done = self.tries(source, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(self.left_behind(), before)
        self.assertEqual(self.rows("select count(*) from projects"), "0")
        return done.stderr

    def rows(self, sql: str) -> str:
        return self.cluster.execute(sql, self.name).strip()

    def stored(self, database: str) -> dict[str, list[str]]:
        """What a database of Berth's has, by its own names and not by the keys of rows."""
        return {table: self.cluster.execute(sql, database).splitlines() for table, sql in STORED.items()}

    def another(self, name: str) -> str:
        """Another database of Berth's, current and empty: its URL."""
        self.cluster.create(name, "berth_template")
        self.addCleanup(self.cluster.drop, name)
        return self.cluster.url(name)

    def serving(self):
        return serving(f"moving-{self.name}", self.url)

    def fills(self, rng: random.Random, reference: str, requests: int = REQUESTS) -> Cloud:
        """Have random requests fill the reference; what it has then."""
        cloud = Cloud(rng, Filling(reference))
        # Berth finds an aggregate in any spelling, and the reference does not (U1 of docs/differences.md): which
        # candidates there are would differ.
        cloud.spelt = lambda uuid: uuid
        self.goes_on(cloud, requests)
        # Chance may not have made what the tests are about.
        while len(cloud.providers) < 4 or self.holding(cloud) < 2:
            self.goes_on(cloud, 20)
        return cloud

    def holding(self, cloud: Cloud) -> int:
        """How many consumers hold something."""
        asked = [Request("GET", f"/allocations/{consumer}", "1.39") for consumer in cloud.consumers]
        return sum(bool(cloud._generations.ask(it).json()["allocations"]) for it in asked)

    def goes_on(self, cloud: Cloud, requests: int) -> None:
        """Send more random requests to the reference."""
        filling = cloud._generations
        # The test's own providers are left alone.
        cloud.providers = {it: cloud.providers[it] for it in cloud.providers if it[:8] != uuid(0)[:8]}
        for _ in range(requests):
            request = routes.any_request(cloud, building=True)
            answer = filling.ask(request)
            if request.method != "GET" and answer.status < 300:
                listed = differential.listed(filling)
                cloud.providers = {it: listed[it] for it in listed if it[:8] != uuid(0)[:8]}

    def compares(self, cloud: Cloud, reference: str, own: str, queries: int = CANDIDATES) -> None:
        both = Comparing(reference, own, differential.Tally(), "moving")
        cloud.providers = differential.listed(both)
        differential.look_round(both, cloud)
        for uuid in cloud.providers:
            both.ask(Request("GET", f"/resource_providers/{uuid}", "1.39", kind="provider"))
        candidates = 0
        while candidates < queries:
            request = routes.any_request(cloud, building=False)
            if request.method == "GET" and request.path == "/allocation_candidates":
                both.ask(request)
                candidates += 1
        self.assertEqual(both._tally.failures, collections.Counter())
        self.assertGreater(both._tally.passed, queries)


def uuid(number: int) -> str:
    return f"0000000a-0000-4000-8000-{number:012d}"
