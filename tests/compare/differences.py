"""Compare the reference with Berth after an import, with one planted difference at a time."""

import contextlib
import json
import pathlib
import socket
import subprocess
import tempfile
import threading
import time

import sqlalchemy
from harness.commands import berth
from harness.servers import Reference, _environment, find_berth

from comparing import Both
from faulty import faulty
from filling import CONSUMERS, HOSTS, SHARED, Cloud, aggregate, consumer, host, inventory


class TheSame(Both):
    def test_nothing_differs_after_an_import(self) -> None:
        report = self.compares("--times", "--sample", "200")
        self.assertEqual((report["total"], report["shown"], report["not_compared"]), (0, [], []))
        compared = {it["subject"]: it["compared"] for it in report["differences"]}
        providers = 2 * HOSTS + 1
        self.assertEqual(compared, {
            "resource_classes": 1, "traits": 1, "providers": providers, "inventories": providers,
            "usages": providers, "aggregates": providers, "provider_traits": providers,
            "provider_allocations": providers, "consumers": CONSUMERS, "project_usages": 6,
            "candidates": 200,
        })
        self.assertEqual(report["providers"], [providers, providers])
        self.assertEqual(report["microversion"], "1.39")

    def test_words_and_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "report.json"
            done = berth(
                "compare", self.reference.url, self.berth.url, "--consumers", "5", "--report", file
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("inventories: 13 compared, the same\n", done.stdout)
            self.assertIn("note: of 12 consumers, 5 were compared\n", done.stdout)
            self.assertIn("the services are the same, compared at 1.39 in ", done.stdout)
            self.assertEqual(json.loads(file.read_text())["total"], 0)
            self.assertEqual(done.stderr, "")

    def test_names_in_the_environment_and_of_clouds(self) -> None:
        done = berth("compare", BERTH_COMPARE_LEFT=self.reference.url, BERTH_COMPARE_RIGHT=self.berth.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "clouds.yaml"
            cloud = {"auth_type": "none", "auth": {"endpoint": self.reference.url}}
            file.write_text(json.dumps({"clouds": {"old": cloud}}))
            chosen = {"OS_CLIENT_CONFIG_FILE": str(file)}
            done = berth("compare", "old", self.berth.url, **chosen)
            self.assertEqual(done.returncode, 0, done.stderr)
            output = self.fails("new", self.berth.url, **chosen)
            self.assertIn(f"new is not a URL, so it is the name of a cloud: {file} has no cloud new", output)


class Planted(Both):
    """One difference at a time."""

    @contextlib.contextmanager
    def planted(self, change: str, back: str):
        self.write(change)
        try:
            yield
        finally:
            self.write(back)

    def write(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement))

    def finds(self, change: str, back: str, expected: list[str], *options) -> None:
        """Plant a difference; these are found, as subject, request and place."""
        with self.planted(change, back):
            report = self.compares("--sample", "0", *options, code=1)
        found = [f"{it['subject']} {it['request']} {it['place']}" for it in report["shown"]]
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual(report["total"], len(expected))
        self.values = [(it["left"], it["right"]) for it in report["shown"]]

    def test_of_each_kind(self) -> None:
        h, c = host(1), consumer(3)
        provider = f"(select id from resource_providers where uuid = '{h}')"
        row = f"update resource_providers set {{}} where uuid = '{h}'"
        of = f"/resource_providers/{h}"
        with self.subTest("name"):
            self.finds(row.format("name = 'other'"), row.format("name = 'host-1'"), [f"providers {of} body/name"])
            self.assertEqual(self.values, [("other", "host-1")])
        with self.subTest("generation"):
            change, back = row.format("generation = generation + 1"), row.format("generation = generation - 1")
            self.finds(change, back, [f"providers {of} body/generation"])
            with self.planted(change, back):
                self.compares("--ignore", "provider-generations,consumer-generations")
        with self.subTest("tree"):
            root = f"(select id from resource_providers where uuid = '{host(2)}')"
            self.finds(
                row.format(f"root_provider_id = {root}, parent_provider_id = {root}"),
                row.format("root_provider_id = id, parent_provider_id = null"),
                [f"providers {of} body/parent_provider_uuid", f"providers {of} body/root_provider_uuid"],
            )
        with self.subTest("inventory"):
            row = "update inventories set {} where resource_provider_id = " + provider + " and total = 16"
            change, back = row.format("allocation_ratio = 4.25"), row.format("allocation_ratio = 4.5")
            self.finds(change, back, [f"inventories {of}/inventories body/inventories/VCPU/allocation_ratio"])
            self.assertEqual(self.values, [(4.25, 4.5)])
        with self.subTest("trait"):
            where = f"resource_provider_id = {provider} and trait_id = (select id from traits where name = '{{}}')"
            change = f"update resource_provider_traits set trait_id = (select id from traits where name = '{{}}') where {where}"
            self.finds(
                change.format("CUSTOM_UNUSED", "CUSTOM_RED"), change.format("CUSTOM_RED", "CUSTOM_UNUSED"),
                [f"provider_traits {of}/traits body/traits/[]"] * 2,
            )
            self.assertEqual(sorted(self.values, key=str), [("CUSTOM_UNUSED", None), (None, "CUSTOM_RED")])
        with self.subTest("aggregate"):
            member = f"where resource_provider_id = {provider} and aggregate_id = (select id from placement_aggregates where uuid = '{aggregate(1)}')"
            self.finds(
                f"delete from resource_provider_aggregates {member}",
                f"insert into resource_provider_aggregates (resource_provider_id, aggregate_id) values ({provider}, "
                f"(select id from placement_aggregates where uuid = '{aggregate(1)}'))",
                [f"aggregates {of}/aggregates body/aggregates/[]"],
            )
        with self.subTest("consumer"):
            row = f"update consumers set {{}} where uuid = '{c}'"
            self.finds(
                row.format("generation = generation + 1"), row.format("generation = generation - 1"),
                [f"consumers /allocations/{c} body/consumer_generation"],
            )
            self.finds(
                row.format("generation = generation + 1"), row.format("generation = generation - 1"),
                [f"provider_allocations /resource_providers/{it}/allocations body/allocations/{c}/consumer_generation"
                 for it in (host(4), SHARED)],
                "--consumers", "0",
            )
        with self.subTest("allocation"):
            row = f"update allocations set used = {{}} where consumer_id = '{c}' and used = {{}}"
            on = f"/resource_providers/{host(4)}"
            usages = [f"project_usages /usages?project_id=project-0{more}" for more in (
                " body/usages/INSTANCE/VCPU", "&consumer_type=all body/usages/all/VCPU")]
            self.finds(row.format(3, 2), row.format(2, 3), [
                f"usages {on}/usages body/usages/VCPU",
                f"provider_allocations {on}/allocations body/allocations/{c}/resources/VCPU",
                f"consumers /allocations/{c} body/allocations/{host(4)}/resources/VCPU", *usages,
            ])
        with self.subTest("owner"):
            row = f"update consumers set user_id = (select id from users where external_id = 'user {{}}/ä') where uuid = '{c}'"
            self.finds(row.format(0), row.format(1), [f"consumers /allocations/{c} body/user_id"])
            row = f"update consumers set consumer_type_id = (select id from consumer_types where name = '{{}}') where uuid = '{c}'"
            with self.planted(row.format("MIGRATION"), row.format("INSTANCE")):
                report = self.compares("--sample", "0", code=1)
                found = {f"{it['subject']} {it['place']}" for it in report["shown"]}
                self.assertIn("consumers body/consumer_type", found)
                self.assertEqual({it.split()[0] for it in found}, {"consumers", "project_usages"})
        with self.subTest("time"):
            row = f"update resource_providers set updated_at = {{}} where uuid = '{h}'"
            [time] = self.read(f"select updated_at from resource_providers where uuid = '{h}'")
            self.finds(
                row.format("'2020-01-02 03:04:05'"), row.format(f"'{time}'"),
                [f"providers {of} headers/last-modified"], "--times",
            )
        with self.subTest("candidates"):
            where = f"resource_provider_id = {provider} and trait_id = (select id from traits where name = 'CUSTOM_RED')"
            change = f"update resource_provider_traits set trait_id = (select id from traits where name = 'CUSTOM_BLUE') where {where}"
            with self.planted(change, change.replace("CUSTOM_RED", "X").replace("CUSTOM_BLUE", "CUSTOM_RED").replace("'X'", "'CUSTOM_BLUE'")):
                report = self.compares("--sample", "200", code=1)
                counts = {it["subject"]: it["count"] for it in report["differences"] if it["count"]}
                self.assertEqual(counts.pop("provider_traits"), 2)
                self.assertEqual(list(counts), ["candidates"])
                limited = self.compares("--sample", "200", "--differences", "3", code=1)
                self.assertEqual((limited["total"], len(limited["shown"])), (report["total"], 3))
        self.compares()

    def read(self, query: str) -> list:
        with self.engine.begin() as connection:
            return list(connection.execute(sqlalchemy.text(query)).scalars())

    def test_what_only_one_service_has(self) -> None:
        cloud = Cloud(self.berth.url)
        new = host(99)
        cloud.provider(new, "new")
        cloud.ask("PUT", "/traits/CUSTOM_NEW")
        cloud.ask("PUT", "/resource_classes/CUSTOM_NEW")
        try:
            report = self.compares("--sample", "0", code=1)
            found = [(it["subject"], it["place"], it["left"]) for it in report["shown"]]
            self.assertEqual(found, [
                ("resource_classes", "body/resource_classes/CUSTOM_NEW", None),
                ("traits", "body/traits/[]", None),
                ("providers", "status", 404),
            ])
            self.assertEqual(report["providers"], [13, 14])
            done = berth("compare", self.reference.url, self.berth.url, "--sample", "0")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"  /resource_providers/{new} status: left 404, right 200\n", done.stdout)
            self.assertIn("\n3 differences, compared at 1.39 in ", done.stdout)
        finally:
            cloud.ask("DELETE", f"/resource_providers/{new}")
            cloud.ask("DELETE", "/traits/CUSTOM_NEW")
            cloud.ask("DELETE", "/resource_classes/CUSTOM_NEW")
        self.compares()

    def test_what_changes_while_it_is_read_is_no_difference(self) -> None:
        answers = {}

        def stale(count: int, path: str):
            # The first answer about each provider's usages is out of date.
            if path.endswith("/usages") and path not in answers:
                answers[path] = True
                return 200, b'{"resource_provider_generation": 0, "usages": {"VCPU": 77}}'
            return None

        with faulty(self.berth.url, stale) as server:
            self.compares(right=server.url)
        self.assertEqual(len(answers), 2 * HOSTS + 1)


class MeantToDiffer(Both):
    """What docs/differences.md explains is no difference."""

    def writes(self, provider: str, part: str, **body) -> None:
        for url in (self.reference.url, self.berth.url):
            Cloud(url).put(provider, part, **body)

    def test_aggregates_in_several_spellings_whatever_is_sampled(self) -> None:
        one = "abcdef00-0000-4000-8000-000000000001"
        for number, spelling in enumerate((one, one.upper(), one.replace("-", "")), start=1):
            self.writes(host(number), "aggregates", aggregates=[spelling])
            self.writes(host(number), "inventories", inventories={
                "VCPU": inventory(16, 4.5), "MEMORY_MB": inventory(65536), "DISK_GB": inventory(100)})
        # It shares its disk with one of the three, or with all of them.
        self.writes(SHARED, "aggregates", aggregates=[one])
        for seed in range(1, 9):
            self.compares("--sample", "1", "--consumers", "0", "--seed", str(seed))
        self.compares("--sample", "100", "--consumers", "0")

    def test_capacities_beyond_64_bits(self) -> None:
        self.writes(host(4), "inventories", inventories={
            "VCPU": inventory(2147483647, 3e38), "MEMORY_MB": inventory(65536)})
        for left, right in ((self.reference.url, self.berth.url), (self.berth.url, self.reference.url)):
            report = self.compares("--sample", "50", "--consumers", "0", left=left, right=right)
            [note] = [it for it in report["notes"] if "beyond 64 bits" in it]
            self.assertRegex(note, r"^\d+ capacities among candidates are beyond 64 bits")


class CannotBeCompared(Both):
    def test_nothing_answers(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            output = self.fails(self.reference.url, url)
        self.assertIn(f"GET {url}/: ", output)
        self.assertIn("refused", output)

    def test_what_answers_is_no_placement(self) -> None:
        html = lambda count, path: (200, b"<html>It works!</html>")  # noqa: E731
        with faulty(None, html) as server:
            self.assertIn(f"{server.url}/: the response is not from a placement service", self.fails(self.reference.url, server.url))
        keystone = b'{"versions": {"values": [{"id": "v3.14"}]}}'
        with faulty(None, lambda count, path: (300, keystone)) as server:
            self.assertIn(f"{server.url}/: 300 Multiple Choices", self.fails(server.url, self.berth.url))

    def test_what_a_service_fails_at_is_counted_and_the_rest_is_compared(self) -> None:
        # On PostgreSQL, the reference fails at usages of projects by type of consumer (R3 of docs/differences.md).
        cluster = self.own._cluster
        cluster.create("placement")
        source = f"postgresql+psycopg2://berth@/placement?host={cluster.folder}"
        with Reference(source).start("compare-postgresql") as reference:
            Cloud(reference.url).fill()
            report = self.compares("--sample", "3", left=reference.url, code=3)
            counts = {it["subject"]: (it["compared"], it["not_compared"]) for it in report["differences"]}
            self.assertEqual((counts["project_usages"], counts["candidates"]), ((3, 3), (3, 0)))
            self.assertEqual((report["total"], len(report["not_compared"])), (0, 3))
            self.assertIn(f"GET {reference.url}/usages?project_id=", report["not_compared"][0])
            self.assertIn(": 500 Internal Server Error: ", report["not_compared"][0])
            done = berth("compare", reference.url, self.berth.url, "--sample", "0")
            self.assertIn("usages of projects: 3 compared, the same, 3 could not be compared\n", done.stdout)
            self.assertIn("\nnothing differs, but 3 requests could not be compared, ", done.stdout)
            skipped = self.compares("--sample", "0", "--skip", "project-usages", left=reference.url)
            self.assertEqual([it["subject"] for it in skipped["differences"] if it["skipped"]], ["project_usages"])
            # A difference counts for more than what could not be compared.
            cloud = Cloud(self.berth.url)
            cloud.ask("PUT", "/traits/CUSTOM_NEW")
            try:
                self.compares("--sample", "0", left=reference.url, code=1)
            finally:
                cloud.ask("DELETE", "/traits/CUSTOM_NEW")

    def test_a_service_that_is_gone_midway_is_not_asked_for_everything(self) -> None:
        asked = []

        def late(count: int, path: str):
            asked.append(path)
            # No retry helps, so it is 501.
            return (501, b"gone") if count > 20 else None

        with faulty(self.reference.url, late) as server:
            report = self.compares("--sample", "3", left=server.url, code=3)
        counts = {it["subject"]: it for it in report["differences"]}
        parts = sum(counts[it]["compared"] + counts[it]["not_compared"] for it in (
            "inventories", "usages", "aggregates", "provider_traits", "provider_allocations"))
        self.assertEqual(parts, 5 * (2 * HOSTS + 1))
        self.assertGreater(counts["inventories"]["compared"], 0)
        self.assertLess(sum("/resource_providers/" in path for path in asked), 5 * (2 * HOSTS + 1) + 50)

    def test_an_interrupted_comparison_goes_on(self) -> None:
        asked, hang = [], threading.Event()

        def slow(count: int, path: str):
            asked.append(path)
            # The requests that are under way when the comparison is killed are never answered.
            if path.startswith("/allocations/") and len(asked) > 75:
                hang.wait(60)
            return None

        with tempfile.TemporaryDirectory() as folder, faulty(self.reference.url, slow) as server:
            state = pathlib.Path(folder) / "state"
            command = [find_berth(), "compare", server.url, self.berth.url, "--sample", "5", "--state", state]
            process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, env=_environment())
            deadline = time.monotonic() + 60
            while not any(path.startswith("/allocations/") for path in asked[75:]):
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(process.poll())
            process.kill()
            process.communicate()
            hang.set()
            kept = state.read_text().count("\n") - 1
            self.assertGreaterEqual(kept, 65)
            self.assertIn("belongs to a comparison of other services", self.fails(
                self.berth.url, self.reference.url, "--state", str(state)))
            asked.clear()
            report = self.compares("--sample", "5", "--state", str(state), left=server.url)
            self.assertEqual(report["notes"], [f"{kept} requests had been compared before"])
            self.assertFalse(any("/inventories" in path for path in asked))
            whole = self.compares("--sample", "5")
            self.assertEqual(report["differences"], whole["differences"])
            # Everything is compared: the next comparison begins anew.
            self.assertFalse(state.exists())

    def test_a_service_that_is_overloaded_for_a_while(self) -> None:
        now_and_then = lambda count, path: (503, b"busy") if count % 7 == 3 else None  # noqa: E731
        with faulty(self.reference.url, now_and_then) as server:
            self.compares(left=server.url)

    def test_a_token_that_is_refused(self) -> None:
        refused = lambda count, path: None if path == "/" else (401, b"who are you?")  # noqa: E731
        with faulty(self.reference.url, refused) as server:
            output = self.fails(server.url, self.berth.url, BERTH_COMPARE_LEFT_TOKEN="s3cret")
            self.assertIn("/resource_providers: 401 Unauthorized: who are you?", output)
            self.assertNotIn("s3cret", output)

    def test_candidates_that_fail(self) -> None:
        failing = lambda count, path: (500, b"no") if path.startswith("/allocation_candidates") else None  # noqa: E731
        with faulty(self.reference.url, failing) as server:
            report = self.compares("--sample", "3", left=server.url, code=3)
            self.assertEqual((report["total"], len(report["not_compared"])), (0, 3))

    def test_what_is_wrong_on_the_command_line(self) -> None:
        for arguments, words in [
            (["http://a"], "RIGHT"),
            (["ftp://a", "http://b"], "ftp://a: must be a URL such as http://HOST:PORT"),
            (["http://a?b", "http://b"], "has no query"),
            (["http://u:s3cret@a", "http://b"], "must not have credentials"),
            (["http://a", "http://b", "--ignore", "names"], "names"),
            (["http://a", "http://b", "--skip", "names"], "names"),
            (["http://a", "http://b", "--report", "/no/such/file"], "/no/such/file: "),
        ]:
            output = self.fails(*arguments)
            self.assertIn(words, output)
            self.assertNotIn("s3cret", output)
