"""A large cloud in the reference's database, with all that years leave behind.

The reference makes the tables and, over its API, some rows of each kind; SQL makes many more of them. The tests have a
small one; `tests/moving/run --large` has one of 100,000 consumers.
"""

import collections
import contextlib
import dataclasses
import datetime
import json
import pathlib
import random
import subprocess
import tempfile
import time

import sqlalchemy

import everything
import sources
from moving_case import Moving, Reference, Request, _environment, berth, send, serving


@dataclasses.dataclass(frozen=True)
class Size:
    """How large a cloud is."""

    hosts: int
    consumers: int
    # Of the consumers, how many have no row of their own, are in upper case, or hold nothing.
    incomplete: int
    shouted: int
    empty: int
    # How many consumers are asked for by themselves; the others are seen below their providers.
    asked: int


LARGE = Size(hosts=500, consumers=100_000, incomplete=500, shouted=500, empty=200, asked=5000)
SMALL = Size(hosts=60, consumers=5000, incomplete=50, shouted=50, empty=20, asked=500)
PROJECTS = 100
AGGREGATES = 20
# Every so many consumers, one has something of a provider that is gone.
GONE_EVERY, GONE_FROM = 500, 177
CREATED = datetime.datetime(2020, 1, 2, 3, 4, 5)
# Rows of one statement.
BATCH = 5000

QUERIES = (
    "resources=VCPU:1,MEMORY_MB:512,DISK_GB:1",
    "resources=VCPU:1&resources_gpu=VGPU:1&required_gpu=CUSTOM_GPU&group_policy=none",
    "resources=DISK_GB:100&required=HW_CPU_X86_AVX2",
)


def uuid(kind: str, number: int) -> str:
    return f"0000000{kind}-0000-4000-8000-{number:012x}"


@contextlib.contextmanager
def references(url: str, name: str):
    """Two servers of the reference over one database, because each answers one request at a time."""
    with Reference(url).start(f"{name}-1") as one, Reference(url).start(f"{name}-2") as other:
        yield [one.url, other.url]


class Filling:
    """Writes the rows."""

    def __init__(self, url: str, size: Size) -> None:
        self.url = url
        self.size = size
        self.engine = sqlalchemy.create_engine(url)
        self.random = random.Random("large")
        with Reference(url).start("moving-large-empty") as reference:
            self.begin(reference.url)
        self.tables = sqlalchemy.MetaData()
        self.tables.reflect(self.engine)
        self.ids = {}
        with self.engine.connect() as connection:
            for table in ("resource_classes", "traits", "consumer_types"):
                rows = connection.execute(sqlalchemy.text(f"select name, id from {table}"))
                self.ids[table] = dict(rows.all())

    def begin(self, url: str) -> None:
        """A few rows by the reference's own hand: names of its own, a host, and instances on it."""

        def ask(method: str, path: str, body: dict | None = None) -> None:
            answer = send(url, Request(method, path, "1.39", body=body))
            assert answer.status < 300, f"{method} {path}: {answer}"

        for name in ("CUSTOM_GPU", "CUSTOM_RACK_1"):
            ask("PUT", f"/traits/{name}")
        ask("PUT", "/resource_classes/CUSTOM_GOLD")
        own = uuid("f", 1)
        ask("POST", "/resource_providers", {"uuid": own, "name": "by the API"})
        stock = {"VCPU": {"total": 1000, "allocation_ratio": 16.123456}, "CUSTOM_GOLD": {"total": 1000}}
        ask("PUT", f"/resource_providers/{own}/inventories", {
            "resource_provider_generation": 0, "inventories": stock,
        })  # fmt: skip
        for number, kind in enumerate(("INSTANCE", "MIGRATION", "VOLUME") * 100):
            ask("PUT", f"/allocations/{uuid('e', number)}", {
                "allocations": {own: {"resources": {"VCPU": 1, "CUSTOM_GOLD": 1}}}, "consumer_type": kind,
                "project_id": f"project {number % 7}", "user_id": "somebody", "consumer_generation": None,
            })  # fmt: skip

    def insert(self, table: str, rows: list[dict]) -> None:
        statement = self.tables.tables[table].insert()
        # The reference fails at providers without a time.
        rows = [{"created_at": CREATED, **row} for row in rows]
        with self.engine.begin() as connection:
            for first in range(0, len(rows), BATCH):
                connection.execute(statement, rows[first : first + BATCH])

    def fill(self) -> None:
        classes, traits = self.ids["resource_classes"], self.ids["traits"]
        # Keys after those of what the reference has written.
        host = lambda nth: 1000 + 4 * nth  # noqa: E731
        providers, inventories, of_traits, members = [], [], [], []
        for nth in range(self.size.hosts):
            root = host(nth)
            tree = [("", None), ("_numa0", root), ("_numa1", root), ("_gpu", root + 1)]
            for number, (suffix, parent) in enumerate(tree):
                own = root + number
                providers.append({
                    "id": own, "uuid": uuid("a", own), "name": f"host-{nth:04}{suffix}", "generation": nth % 50,
                    "root_provider_id": root, "parent_provider_id": parent,
                })  # fmt: skip

            def stock(provider: int, name: str, total: int, ratio: float = 1.0, reserved: int = 0) -> None:
                inventories.append({
                    "resource_provider_id": provider, "resource_class_id": classes[name], "total": total,
                    "reserved": reserved, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": ratio,
                })  # fmt: skip

            stock(root, "DISK_GB", 4000, 1.0, 100)
            for numa in (root + 1, root + 2):
                # More is allocated on some than there is.
                stock(numa, "VCPU", 24 if nth % 50 else 2, 16.123456 if nth % 2 else 4.0)
                stock(numa, "MEMORY_MB", 262144, 1.5, 512)
            stock(root + 3, "VGPU", 16)
            of_traits += [(root, "HW_CPU_X86_AVX2"), (root + 3, "CUSTOM_GPU")]
            of_traits += [(root, "CUSTOM_RACK_1")] if nth % 3 == 0 else []
            members.append((root, nth % AGGREGATES + 1))
        # One UUID in two spellings is two aggregates; MariaDB does not distinguish letters by their case.
        spelled = [uuid("c", nth) for nth in range(AGGREGATES - 2)]
        spelled += [uuid("c", AGGREGATES).upper(), spelled[0].replace("-", "")]
        self.insert("placement_aggregates", [{"id": nth + 1, "uuid": it} for nth, it in enumerate(spelled)])
        # In the order of their keys: without another, PostgreSQL lists rows in the order in which they came.
        self.insert("resource_providers", providers)
        self.insert("inventories", inventories)
        self.insert("resource_provider_traits", [
            {"resource_provider_id": provider, "trait_id": traits[name]} for provider, name in of_traits
        ])  # fmt: skip
        self.insert("resource_provider_aggregates", [
            {"resource_provider_id": provider, "aggregate_id": it} for provider, it in members
        ])  # fmt: skip
        for table in ("projects", "users"):
            rows = [{"id": 1000 + nth, "external_id": f"{table} {nth}"} for nth in range(PROJECTS)]
            self.insert(table, rows)
        self.consume(host)

    def consume(self, host) -> None:
        """Consumers and what they hold."""
        classes, kinds = self.ids["resource_classes"], [None, *self.ids["consumer_types"].values()]
        consumers, allocations = [], []
        size = self.size
        for nth in range(size.consumers):
            own = uuid("b", nth)
            is_shouted = nth < size.shouted
            if is_shouted:
                own = own.upper()
            if not size.shouted <= nth < size.shouted + size.incomplete:
                consumers.append({
                    "id": 1000 + nth, "uuid": own, "project_id": 1000 + nth % PROJECTS,
                    "user_id": 1000 + nth % PROJECTS, "generation": nth % 9, "consumer_type_id": kinds[nth % len(kinds)],
                })  # fmt: skip
            if nth >= size.consumers - size.empty:
                continue
            root = host(nth % size.hosts)
            numa = root + 1 + nth // size.hosts % 2
            wanted = [(root, "DISK_GB", 10), (numa, "VCPU", 1), (numa, "MEMORY_MB", 512)]
            # The instances of one host follow each other at a distance of as many as there are hosts.
            wanted += [(root + 3, "VGPU", 1)] if nth // size.hosts % 20 == 7 else []
            # Of a provider that is gone.
            wanted += [(999_999, "VCPU", 1)] if nth % GONE_EVERY == GONE_FROM else []
            allocations += [
                {"resource_provider_id": it, "consumer_id": own, "resource_class_id": classes[name], "used": amount}
                for it, name, amount in wanted
            ]
        self.insert("consumers", consumers)
        self.insert("allocations", allocations)


def complete(url: str) -> None:
    """Have the reference give each consumer without a row one: `placement-manage db online_data_migrations`."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/placement.conf", "w") as conf:
            conf.write(f"[placement_database]\nconnection = {url}\n")
        command = ["placement-manage", "--config-dir", folder, "db", "online_data_migrations"]
        subprocess.run(command, check=True, capture_output=True, env=_environment())


def lost(report: dict) -> dict[str, collections.Counter]:
    """What the report of an import names as left out of the usages of projects: 1 of a class by each row."""
    lost = collections.defaultdict(collections.Counter)
    for finding in report["findings"]:
        if finding["kind"] == "allocations that cannot be":
            lost[finding["about"]["project"]].update(finding["about"]["classes"])
    return dict(lost)


def compared(old: str, new: str, report: pathlib.Path, *options: object) -> dict:
    """What `berth compare` says, with the report of the import: nothing may differ but what that explains."""
    done = berth("compare", old, new, "--json", "--differences", "100000", "--import-report", report, *options)
    assert done.returncode == 0, f"{done.stdout[:5000]}{done.stderr}"
    return json.loads(done.stdout)


def check_explained(found: dict, lost: dict[str, collections.Counter]) -> None:
    """All usages of projects that the import explains are those that its report names, by their amounts."""
    # With all types of consumers, they stand below the type.
    asked = [it for it in found["explained"] if it["subject"] == "project_usages" and "consumer_type=" not in it["request"]]
    of = lambda it: it["request"].split("project_id=")[1].replace("%20", " ")  # noqa: E731
    amounts = collections.defaultdict(collections.Counter)
    for it in asked:
        amounts[of(it)][it["place"].rsplit("/", 1)[1]] = it["left"] - it["right"]
    assert dict(amounts) == lost, f"{dict(amounts)} instead of {lost}"


def moves(name: str, source, url: str, size: Size = LARGE) -> list[str]:
    """Fill a database, import it into Berth's database `url`, and compare; the differences."""

    def say(what: str, began: float) -> None:
        print(f"{name}: {what} in {time.monotonic() - began:.0f} s", flush=True)

    with source() as old, tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        began = time.monotonic()
        Filling(old, size).fill()
        say(f"{4 * size.hosts} providers and {size.consumers} consumers written", began)
        done = berth("import", "--from-database", old, "--database-url", url, "--report", file)
        print(done.stdout, done.stderr, sep="", flush=True)
        assert done.returncode == 0
        left_out = lost(json.loads(file.read_text()))
        audit = berth("db", "check", "--database-url", url)
        print(audit.stdout, end="", flush=True)
        assert audit.stdout == "0 faults\n"
        complete(old)
        began = time.monotonic()
        with references(old, "moving-large") as urls, serving(f"moving-{name}", url) as server:
            theirs = everything.Everything(urls)
            old_tables = theirs.tables(size.asked, QUERIES)
            say(f"the old service answered {theirs.requests} requests", began)
            began = time.monotonic()
            ours = everything.Everything([server.url] * 2)
            new_tables = ours.tables(size.asked, QUERIES)
            say(f"Berth answered {ours.requests} requests", began)
            # Exactly what the report names is missing.
            for project, amounts in left_out.items():
                usages = old_tables["usages"][project]
                for resource_class, amount in amounts.items():
                    usages[resource_class] -= amount
            found = everything.differences(old_tables, new_tables)
            counts = ", ".join(f"{len(rows)} {table}" for table, rows in new_tables.items())
            print(f"{name}: {len(found)} differences in {counts}", *found[:20], sep="\n", flush=True)
            if name == "MariaDB":
                # On PostgreSQL, the old service fails at usages of projects: R3 in docs/differences.md.
                began = time.monotonic()
                check_explained(compared(urls[0], server.url, file, "--consumers", size.asked), left_out)
                say("compared by `berth compare`", began)
            return found


class Large(Moving):
    """A small form of it."""

    def test_all_differences_are_those_that_the_report_names(self) -> None:
        self.assertEqual(moves("MariaDB", sources.mariadb, self.url, SMALL), [])

    def test_a_difference_that_the_report_does_not_name_remains(self) -> None:
        size = Size(hosts=4, consumers=200, incomplete=20, shouted=20, empty=5, asked=0)
        with sources.mariadb() as old, tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "report.json"
            Filling(old, size).fill()
            self.assertEqual(self.tries(old, "--report", file).returncode, 0)
            # Consumers without a row are explained as well: Berth shows them, and the old service does not.
            with Reference(old).start(f"moving-{self.name}") as reference, self.serving() as server:
                found = compared(reference.url, server.url, file)
                explained = {it["subject"] for it in found["explained"]}
                self.assertEqual(explained, {"provider_allocations", "consumers", "project_usages"})
                count = sum(it["explained"] for it in found["differences"])
                done = berth("compare", reference.url, server.url, "--json")
                self.assertEqual((done.returncode, json.loads(done.stdout)["total"]), (1, count))
                # One more is used of an inventory than the old service says.
                used = "(select min(id) from consumers where uuid::text like '0000000e%')"
                self.rows(f"update allocation_sets set used[1] = used[1] + 1 where consumer_id = {used}")
            with Reference(old).start(f"moving-{self.name}-2") as reference, self.serving() as server:
                done = berth("compare", reference.url, server.url, "--json", "--import-report", file)
                self.assertEqual(done.returncode, 1, done.stdout[:5000])
                left = json.loads(done.stdout)
                self.assertEqual(sum(it["explained"] for it in left["differences"]), count)
                self.assertIn("consumers", {it["subject"] for it in left["shown"]})
                self.assertTrue(all("0000000e" in it["request"] + it["place"] for it in left["shown"]
                                    if it["subject"] in ("consumers", "provider_allocations")))  # fmt: skip
