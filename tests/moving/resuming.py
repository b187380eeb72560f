"""An import that is killed goes on with what it has read, and one can replace what Berth has."""

import contextlib
import itertools
import os
import pty
import signal
import subprocess
import time

import sources
from moving_case import Reference, Request, _environment, berth, find_berth, send, uuid
from odd_rows import Source

CONSUMERS = 60_000
WAIT_SECONDS = 300


class Resuming(Source):
    """Killed with SIGKILL, at moments that the database tells."""

    def setUp(self) -> None:
        super().setUp()
        vcpu = self.class_id("VCPU")
        numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {CONSUMERS}) "
        spelled = "printf('0000000a-0000-4000-8000-%012d', i)"
        self.write(
            "insert into projects (id, external_id) values (1, 'p'), (2, 'q')",
            "insert into users (id, external_id) values (1, 'u')",
            self.provider(1, "root", 1),
            self.inventory(1, vcpu, total=CONSUMERS),
            "insert into consumers (id, uuid, project_id, user_id, generation) "
            f"{numbers} select i, {spelled}, 1, 1, 3 from n",
            "insert into allocations (resource_provider_id, consumer_id, resource_class_id, used) "
            f"{numbers} select 1, {spelled}, {vcpu}, 1 from n",
        )

    def killed_when(self, condition: str) -> None:
        """Import, and kill that as soon as the condition holds in Berth's database."""
        command = [str(find_berth()), "import", "--from-database", self.source, "--database-url", self.url]
        process = subprocess.Popen(
            command, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and self.rows(f"select {condition}") != "t":
            self.assertLess(time.monotonic(), deadline)
        process.send_signal(signal.SIGKILL)
        _, output = process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL, output)
        self.assertEqual(self.rows("select count(*) from consumers"), "0")
        # PostgreSQL may take a moment to notice that a client is gone.
        while self.rows("select count(*) from pg_locks where locktype = 'advisory'") != "0":
            self.assertLess(time.monotonic(), deadline)

    def staged(self, table: str) -> str:
        """A condition: rows of the table are kept."""
        return (
            "case when to_regclass('berth_import.chunks') is null then false else (xpath('//c/text()', query_to_xml("
            f"'select count(*) as c from berth_import.chunks where name = ''{table}''', false, true, '')))"
            "[1]::text <> '0' end"
        )

    def test_what_was_read_is_kept_and_brought_up_to_date(self) -> None:
        self.killed_when("to_regclass('berth_import.state') is not null")
        self.killed_when(self.staged("consumers"))
        # What had been read changes: another project, one consumer less, one more.
        new, vcpu = CONSUMERS + 1, self.class_id("VCPU")
        self.write(
            f"update consumers set project_id = 2, generation = 4 where id in (1, {CONSUMERS // 2})",
            "delete from consumers where id = 7",
            f"delete from allocations where consumer_id = '{uuid(7)}'",
            "insert into consumers (id, uuid, project_id, user_id, generation) values "
            f"({new}, '{uuid(new)}', 2, 1, 1)",
            self.allocation(1, uuid(new), vcpu, 5),
            "update resource_providers set name = 'renamed' where id = 1",
        )
        self.killed_when(self.staged("allocations"))
        self.write("update allocations set used = 2 where id = 3")
        # While Berth's tables are being filled.
        self.killed_when(
            "exists (select from pg_locks where relation = 'consumers'::regclass and mode = 'ExclusiveLock')"
        )
        report = self.imports(self.source)
        self.assertIn("continuing the import started at", report["notes"][0])
        kept = int(report["notes"][1].split()[0])
        self.assertGreater(kept, CONSUMERS)
        written = {it["table"]: it["rows"] for it in report["written"]}
        self.assertEqual((written["consumers"], written["allocations"]), (CONSUMERS, CONSUMERS))
        # The rows above are written without times.
        without_time = "times of change that are missing or cannot be read"
        self.assertLessEqual({it["kind"] for it in report["findings"]}, {without_time})
        self.assertLessEqual(len(report["findings"]), 3)
        self.assertEqual(self.rows("select to_regnamespace('berth_import') is null"), "t")
        with self.serving() as server, self.reference() as reference:
            paths = [f"/allocations/{uuid(n)}" for n in (1, 2, 3, 7, CONSUMERS // 2, CONSUMERS, new)]
            paths += [f"/usages?project_id={project}" for project in ("p", "q")]
            paths += [f"/resource_providers/{uuid(1)}{part}" for part in ("", "/usages", "/inventories")]
            for path in paths:
                request = Request("GET", path, "1.39")
                self.assertEqual(send(server.url, request).json(), send(reference.url, request).json(), path)

    def test_what_was_kept_can_be_given_up(self) -> None:
        self.killed_when(self.staged("consumers"))
        self.assertIn("unable to open database file", self.refused("sqlite:////no/such/file"))
        self.assertEqual(self.rows("select count(*) from berth_import.state"), "1")
        done = self.berth("import", "--discard")
        self.assertEqual((done.returncode, done.stdout), (0, "the rows read so far were removed\n"))
        self.assertEqual(self.berth("import", "--discard").stdout, "there was nothing to remove\n")
        self.killed_when(self.staged("consumers"))
        with sources.sqlite() as other, Reference(other).start(self.name):
            report = self.imports(other)
            self.assertEqual(report["notes"], ["the rows of an import from another source were discarded"])

    def test_a_crash_of_postgresql_is_noticed(self) -> None:
        self.killed_when(self.staged("consumers"))
        self.crash()
        report = self.imports(self.source)
        self.assertIn("PostgreSQL has been restarted after a crash", report["notes"][1])
        written = {it["table"]: it["rows"] for it in report["written"]}
        self.assertEqual(written["consumers"], CONSUMERS)

    def crash(self) -> None:
        self.cluster._run("pg_ctl", "stop", "-D", self.cluster._data, "-m", "immediate", "-w", "-s")
        self.cluster.start()


class Growing(Source):
    """What an import costs PostgreSQL, in clouds of two sizes."""

    # Inventories have three classes, so this is many pages of each table.
    PROVIDERS = 1500

    def fill(self, first: int, end: int) -> None:
        classes = [self.class_id(name) for name in ("VCPU", "MEMORY_MB", "DISK_GB")]
        numbers = f"with recursive n(i) as (select {first} union all select i + 1 from n where i < {end}) "
        spelled = "printf('0000000a-0000-4000-8000-%012d', i)"
        self.write(
            "insert into resource_providers (id, uuid, name, generation, root_provider_id) "
            f"{numbers} select i, {spelled}, 'host-' || i, 1, i from n",
            f"insert into projects (id, external_id) {numbers} select i, 'project-' || i from n",
            f"insert into users (id, external_id) {numbers} select i, 'user-' || i from n",
            f"insert into placement_aggregates (id, uuid) {numbers} select i, {spelled} from n",
            f"insert into resource_provider_aggregates (resource_provider_id, aggregate_id) {numbers} select i, i from n",
            f"insert into resource_provider_traits (resource_provider_id, trait_id) {numbers} select i, 1 from n",
            f"insert into consumers (id, uuid, project_id, user_id, generation) {numbers} select i, {spelled}, i, i, 1 from n",
            *(
                "insert into inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, "
                f"step_size, allocation_ratio) {numbers} select i, {it}, 100, 0, 1, 100, 1, 1.0 from n"
                for it in classes
            ),
            *(
                "insert into allocations (resource_provider_id, consumer_id, resource_class_id, used) "
                f"{numbers} select i, {spelled}, {it}, 1 from n"
                for it in classes
            ),
        )

    def blocks(self, rows: int) -> list[dict[str, int]]:
        """Import into a new database, and then once more; how many blocks of each table each import reads."""
        name = f"{self.name}_{rows}"
        database = self.another(name)
        # PostgreSQL takes the tables for empty, as it does after an analysis between the migration and the import.
        self.cluster.execute("analyze", name)
        known = "select reltuples from pg_class where relname = 'inventories'"
        self.assertEqual(self.cluster.execute(known, name), "0\n")
        # A connection writes its statistics before it ends.
        others = (
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() "
            "and backend_type = 'client backend'"
        )
        query = "select relname, coalesce(heap_blks_hit, 0) + coalesce(heap_blks_read, 0) from pg_statio_user_tables"
        found = [{}]
        for options in ((), ("--replace",)):
            done = berth("import", "--from-database", self.source, "--database-url", database, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            while self.cluster.execute(others, name) != "0\n":
                pass
            lines = self.cluster.execute(query, name).splitlines()
            found.append({table: int(count) for table, count in (line.split("|") for line in lines)})
        return [{table: after[table] - before.get(table, 0) for table in after}
                for before, after in itertools.pairwise(found)]  # fmt: skip

    def test_twice_as_many_rows_cost_twice_as_much(self) -> None:
        found = []
        for rows in (self.PROVIDERS, 2 * self.PROVIDERS):
            self.fill(rows - self.PROVIDERS + 1, rows)
            found.append(self.blocks(rows))
        tables = {"providers", "provider_traits", "provider_aggregates", "inventories", "consumers", "allocation_sets",
                  "projects", "users"}  # fmt: skip
        for once, twice in zip(*found, strict=True):
            self.assertLessEqual(tables, once.keys())
            # To read all rows before it for each row would cost four times as much.
            grown = {table: (once[table], twice[table]) for table in tables if twice[table] > 2.8 * once[table]}
            self.assertEqual(grown, {})

    def test_progress_is_shown_while_tables_are_written(self) -> None:
        self.fill(1, 10)
        main, side = pty.openpty()
        command = [str(find_berth()), "import", "--from-database", self.source, "--database-url", self.url]
        process = subprocess.Popen(command, env=_environment() | {"TERM": "xterm"}, stdin=side, stdout=side, stderr=side)
        os.close(side)
        shown = b""
        with contextlib.suppress(OSError), open(main, "rb", buffering=0) as terminal:
            while part := terminal.read(4096):
                shown += part
        self.assertEqual(process.wait(), 0, shown)
        for what in ("sorting allocations", "writing inventories", "writing consumers", "writing allocations"):
            self.assertIn(what.encode(), shown)
        self.assertIn(b"30/30", shown)


class Replacing(Source):
    """`--replace`."""

    def test_what_berth_has_is_replaced(self) -> None:
        vcpu = self.class_id("VCPU")
        self.write(
            "insert into projects (id, external_id) values (1, 'p')",
            "insert into users (id, external_id) values (1, 'u')",
            self.provider(1, "root", 1),
            self.provider(2, "child", 1, 1),
            self.inventory(1, vcpu),
            "insert into consumers (id, uuid, project_id, user_id, generation) values "
            f"(1, '{uuid(101)}', 1, 1, 5)",
            self.allocation(1, uuid(101), vcpu, 4),
        )
        with self.serving() as server:
            # In Berth, the keys are those of others, the names are exchanged, and there is more.
            for number, name in ((9, "nine"), (2, "root"), (1, "child"), (8, "eight")):
                body = {"name": name, "uuid": uuid(number)}
                made = send(server.url, Request("POST", "/resource_providers", "1.39", body=body))
                self.assertEqual(made.status, 200)
            send(server.url, Request("PUT", "/traits/CUSTOM_OF_BERTH", "1.39"))
            body = {"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 100}}}
            path = f"/resource_providers/{uuid(9)}/inventories"
            self.assertEqual(send(server.url, Request("PUT", path, "1.39", body=body)).status, 200)
            body = {
                "allocations": {uuid(9): {"resources": {"DISK_GB": 7}}}, "project_id": "z", "user_id": "z",
                "consumer_generation": None, "consumer_type": "INSTANCE",
            }  # fmt: skip
            claim = Request("PUT", f"/allocations/{uuid(105)}", "1.39", body=body)
            self.assertEqual(send(server.url, claim).status, 204)
            before = self.rows("select count(*), sum(generation) from providers")
            done = self.tries(self.source)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is not empty: it has 4 providers and 1 consumers", done.stderr)
            self.assertIn("with --replace", done.stderr)
            self.assertEqual(self.rows("select count(*), sum(generation) from providers"), before)
            self.imports(self.source, "--dry-run", "--replace")
            self.assertEqual(self.rows("select count(*), sum(generation) from providers"), before)
            self.imports(self.source, "--replace")
            with self.reference() as reference:
                paths = ["/resource_providers", "/resource_classes", "/usages?project_id=p"]
                paths += [f"/allocations/{uuid(number)}" for number in (101, 105)]
                parts = ("", "/inventories", "/usages", "/allocations")
                paths += [f"/resource_providers/{uuid(number)}{part}" for number in (1, 2) for part in parts]
                for path in paths:
                    request = Request("GET", path, "1.39")
                    self.assertEqual(send(server.url, request).json(), send(reference.url, request).json(), path)
            gone = send(server.url, Request("GET", "/traits/CUSTOM_OF_BERTH", "1.39"))
            self.assertEqual(gone.status, 404)
        self.assertEqual(self.berth("db", "check").stdout, "0 faults\n")
