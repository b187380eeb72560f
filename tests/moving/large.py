"""A large cloud in the reference's database, with all that years leave behind, for `tests/moving/run --large`.

The reference makes the tables and, over its API, some rows of each kind; SQL makes many more of them.
"""

import contextlib
import datetime
import random
import subprocess
import tempfile
import time

import sqlalchemy

import everything
from moving_case import Reference, Request, _environment, berth, send, serving

HOSTS = 500
CONSUMERS = 100_000
PROJECTS = 100
AGGREGATES = 20
# Of the consumers, how many have no row of their own, are in upper case, or hold nothing.
INCOMPLETE, SHOUTED, EMPTY = 500, 500, 200
# How many consumers are asked for by themselves; the others are seen below their providers.
ASKED = 5000
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

    def __init__(self, url: str) -> None:
        self.url = url
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
        for nth in range(HOSTS):
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
        for nth in range(CONSUMERS):
            own = uuid("b", nth)
            is_shouted = nth < SHOUTED
            if is_shouted:
                own = own.upper()
            if not SHOUTED <= nth < SHOUTED + INCOMPLETE:
                consumers.append({
                    "id": 1000 + nth, "uuid": own, "project_id": 1000 + nth % PROJECTS,
                    "user_id": 1000 + nth % PROJECTS, "generation": nth % 9, "consumer_type_id": kinds[nth % len(kinds)],
                })  # fmt: skip
            if nth >= CONSUMERS - EMPTY:
                continue
            root = host(nth % HOSTS)
            numa = root + 1 + nth // HOSTS % 2
            wanted = [(root, "DISK_GB", 10), (numa, "VCPU", 1), (numa, "MEMORY_MB", 512)]
            # The instances of one host follow each other at a distance of HOSTS.
            wanted += [(root + 3, "VGPU", 1)] if nth // HOSTS % 20 == 7 else []
            # Of a provider that is gone.
            wanted += [(999_999, "VCPU", 1)] if nth % 5000 == 4999 else []
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


def moves(name: str, source, url: str) -> list[str]:
    """Fill a database, import it into Berth's database `url`, and compare; the differences."""

    def say(what: str, began: float) -> None:
        print(f"{name}: {what} in {time.monotonic() - began:.0f} s", flush=True)

    with source() as old:
        began = time.monotonic()
        Filling(old).fill()
        say(f"{4 * HOSTS} providers and {CONSUMERS} consumers written", began)
        done = berth("import", "--from-database", old, "--database-url", url)
        print(done.stdout, done.stderr, sep="", flush=True)
        assert done.returncode == 0
        audit = berth("db", "audit", "--database-url", url)
        print(audit.stdout, end="", flush=True)
        assert audit.stdout == "0 faults\n"
        complete(old)
        began = time.monotonic()
        with references(old, "moving-large") as urls, serving(f"moving-{name}", url) as server:
            theirs = everything.Everything(urls)
            old_tables = theirs.tables(ASKED, QUERIES)
            say(f"the old service answered {theirs.requests} requests", began)
            began = time.monotonic()
            ours = everything.Everything([server.url] * 2)
            new_tables = ours.tables(ASKED, QUERIES)
            say(f"Berth answered {ours.requests} requests", began)
            found = everything.differences(old_tables, new_tables)
            counts = ", ".join(f"{len(rows)} {table}" for table, rows in new_tables.items())
            print(f"{name}: {len(found)} differences in {counts}", *found[:20], sep="\n", flush=True)
            return found
