"""`berth import --follow`: Berth's database is kept up with the reference while that is changed at random."""

import contextlib
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time

import sqlalchemy

import sources
from harness.postgres import Cluster
from moving_case import Moving, Reference, Request, _environment, find_berth, send, uuid

WAIT_SECONDS = 300
BURSTS = 4
REQUESTS = 50
CANDIDATES = 25
OTHERS = range(810, 818)


class Follower:
    """A process that follows, and what it has printed."""

    def __init__(self, source: str, url: str, *options: str) -> None:
        command = [find_berth(), "import", "--from-database", source, "--database-url", url, "--follow"]
        command += ["--interval", "1", *options]
        self.process = subprocess.Popen(
            [str(part) for part in command], env=_environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def until(self, condition, what: str = "a condition") -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"the follower ended before {what}:\n{self.output}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what}:\n{self.output}")
            time.sleep(0.05)

    def ended(self) -> int:
        """Its exit code, when it has ended by itself."""
        code = self.process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        return code

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()


class FollowingCase(Moving):
    """What tests of following have in common."""

    marks = 0

    @contextlib.contextmanager
    def follower(self, source: str, *options: str):
        follower = Follower(source, self.url, *options)
        try:
            yield follower
        finally:
            follower.process.kill()
            follower.ended()

    def caught_up(self, follower: Follower, reference: str) -> None:
        """Wait until Berth's database has what the reference has now.

        Each round shows one state of the reference: with the mark, everything is there that came before.
        """
        FollowingCase.marks += 1
        name = f"CUSTOM_MARK_{FollowingCase.marks}"
        self.sends(reference, "PUT", f"/traits/{name}")
        found = f"select count(*) from traits where name = '{name}'"
        follower.until(lambda: self.rows(found) == "1", f"mark {name}")
        # What only follows from the mark is not compared.
        self.sends(reference, "DELETE", f"/traits/{name}")
        follower.until(lambda: self.rows(found) == "0", f"end of mark {name}")

    def sends(self, url: str, method: str, path: str, body: object = None, version: str = "1.39"):
        answer = send(url, Request(method, path, version, body=body))
        self.assertLess(answer.status, 300, f"{method} {path}: {answer.body}")
        return answer

    def finishes(self, source: str, *options: str) -> subprocess.CompletedProcess:
        return self.berth("import", "--from-database", source, "--finish", *options)


class Following(FollowingCase):
    """Random traffic, and writes of which the reference leaves few traces."""

    def test_sqlite(self) -> None:
        self.follows(sources.sqlite, seed=11)

    def test_postgresql(self) -> None:
        self.follows(sources.postgres, seed=12)

    def test_mariadb(self) -> None:
        self.follows(sources.mariadb, seed=13)

    def follows(self, source, seed: int) -> None:
        rng = random.Random(f"following-{seed}")
        with contextlib.ExitStack() as stack:
            url = stack.enter_context(source())
            reference = stack.enter_context(Reference(url).start(f"following-{seed}")).url
            cloud = self.fills(rng, reference)
            follower = stack.enter_context(self.follower(url))
            follower.until(lambda: "round 1:" in follower.output, "a first round")
            with self.serving() as server:
                for burst in range(BURSTS):
                    # Every other time, all of it is one round.
                    if burst % 2:
                        follower.process.send_signal(signal.SIGSTOP)
                    self.goes_on(cloud, REQUESTS)
                    self.leaves_few_traces(reference, burst)
                    follower.process.send_signal(signal.SIGCONT)
                    self.caught_up(follower, reference)
                    self.compares(cloud, reference, server.url, CANDIDATES)
                    self.compares_times(cloud, reference, server.url)
                self.assertEqual(self.berth("db", "check").stdout, "0 faults\n")
                self.assertEqual(follower.stop(), 0, follower.output)
                self.assertIn("continue with `berth import --follow`", follower.output)
                # It goes on where it was, and another process ends it.
                again = stack.enter_context(self.follower(url))
                self.goes_on(cloud, REQUESTS)
                self.caught_up(again, reference)
                done = self.finishes(url)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("0 differed, and 0 of Berth's providers", done.stdout)
                self.assertEqual(again.ended(), 0, again.output)
                self.assertIn("another process finishes", again.output)
                self.compares(cloud, reference, server.url, CANDIDATES)
                self.assertEqual(self.rows("select to_regnamespace('berth_import') is null"), "t")
                triggers = "select count(*) from pg_trigger where tgname like 'berth\\_import%'"
                self.assertEqual(self.rows(triggers), "0")

    def leaves_few_traces(self, url: str, burst: int) -> None:
        """Writes that raise no generation, or come back to where they were."""
        one, two, child = (uuid(number) for number in (901, 902, 903))
        path = "/resource_providers"
        if burst == 0:
            for number, name in ((901, "one"), (902, "two")):
                self.sends(url, "POST", path, {"uuid": uuid(number), "name": name})
            body = {"uuid": child, "name": "child", "parent_provider_uuid": one}
            self.sends(url, "POST", path, body)
            self.sends(url, "POST", "/resource_classes", {"name": "CUSTOM_BEFORE"}, "1.2")
            for provider in (one, two):
                body = {"resource_provider_generation": 0, "inventories": {"CUSTOM_BEFORE": {"total": 20}}}
                self.sends(url, "PUT", f"{path}/{provider}/inventories", body)
            return
        # Names are exchanged, and parents change from one to the other.
        names = ("one", "two") if burst % 2 else ("two", "one")
        for provider, name in ((one, "neither"), (two, names[0]), (one, names[1])):
            self.sends(url, "PUT", f"{path}/{provider}", {"name": name})
        body = {"name": "child", "parent_provider_uuid": two if burst % 2 else one}
        self.sends(url, "PUT", f"{path}/{child}", body)
        # Aggregates without a generation.
        self.sends(url, "PUT", f"{path}/{one}/aggregates", [uuid(burst), uuid(700)], "1.1")
        # A class gets another name, and keeps its inventories and allocations.
        before, after = ("BEFORE", "AFTER") if burst % 2 else ("AFTER", "BEFORE")
        self.sends(url, "PUT", f"/resource_classes/CUSTOM_{before}", {"name": f"CUSTOM_{after}"}, "1.2")
        # A consumer goes and comes, with other owners, on another provider.
        consumer = f"/allocations/{uuid(801)}"
        if burst > 1:
            self.sends(url, "DELETE", consumer)
        body = {
            "allocations": {(one if burst % 2 else two): {"resources": {f"CUSTOM_{after}": 1}}},
            "project_id": f"project-{burst}", "user_id": f"user-{burst % 2}",
            "consumer_generation": None, "consumer_type": f"TYPE_{burst}",
        }  # fmt: skip
        self.sends(url, "PUT", consumer, body)
        # Others claim, grow, move and go.
        rng = random.Random(burst)
        for number in OTHERS:
            path_of_other = f"/allocations/{uuid(number)}"
            held = send(url, Request("GET", path_of_other, "1.39")).json()
            if held["allocations"] and rng.random() < 0.3:
                self.sends(url, "DELETE", path_of_other)
                continue
            body["allocations"] = {rng.choice((one, two)): {"resources": {f"CUSTOM_{after}": rng.randint(1, 2)}}}
            body["consumer_generation"] = held.get("consumer_generation")
            self.sends(url, "PUT", path_of_other, body)
        # A provider is deleted and created again with its UUID, as the parent of another one now.
        gone = uuid(904)
        if burst > 1:
            self.sends(url, "DELETE", f"{path}/{uuid(905)}")
            self.sends(url, "DELETE", f"{path}/{gone}")
        self.sends(url, "POST", path, {"uuid": gone, "name": f"again {burst}"})
        body = {"uuid": uuid(905), "name": "below", "parent_provider_uuid": gone}
        self.sends(url, "POST", path, body)

    def compares_times(self, cloud, reference: str, own: str) -> None:
        """Times of change are those of the reference, in the second."""
        for provider in cloud.providers:
            request = Request("GET", f"/resource_providers/{provider}", "1.39")
            times = [send(url, request).headers["last-modified"] for url in (reference, own)]
            self.assertEqual(*times)
        for number in (801, *OTHERS):
            request = Request("GET", f"/allocations/{uuid(number)}", "1.39")
            self.assertEqual(*[send(url, request).json() for url in (reference, own)])


class Interrupted(FollowingCase):
    """Databases that go away, and others who write."""

    def setUp(self) -> None:
        super().setUp()
        self.theirs = self.enterContext(Cluster())
        self.theirs.create("placement")
        self.source = f"postgresql+psycopg2://berth@/placement?host={self.theirs.folder}"

    def test_a_source_that_goes_away_is_waited_for(self) -> None:
        with Reference(self.source).start(self.name) as reference, self.follower(self.source) as follower:
            self.fills(random.Random(self.name), reference.url, 60)
            self.caught_up(follower, reference.url)
            self.theirs.stop()
            follower.until(lambda: "trying again" in follower.output, "word of the failure")
            time.sleep(3)
            self.theirs.start()
            follower.until(lambda: "both databases respond again" in follower.output, "word of the end")
            self.caught_up(follower, reference.url)
            self.assertEqual(follower.output.count("trying again"), 1, follower.output)
            self.assertEqual(follower.stop(), 0)

    def test_berths_database_may_crash(self) -> None:
        with Reference(self.source).start(self.name) as reference, self.follower(self.source) as follower:
            cloud = self.fills(random.Random(self.name), reference.url, 60)
            self.caught_up(follower, reference.url)
            for mode in ("fast", "immediate"):
                self.cluster._run("pg_ctl", "stop", "-D", self.cluster._data, "-m", mode, "-w", "-s")
                self.goes_on(cloud, 20)
                self.cluster.start()
                self.caught_up(follower, reference.url)
            self.assertIn("the rows that had been read are lost: reading everything again", follower.output)
            with self.serving() as server:
                self.compares(cloud, reference.url, server.url, CANDIDATES)
            self.assertEqual(follower.stop(), 0)

    def test_what_others_write_is_not_lost(self) -> None:
        with Reference(self.source).start(self.name) as reference, self.serving() as server:
            cloud = self.fills(random.Random(self.name), reference.url, 60)
            with self.follower(self.source) as follower:
                self.caught_up(follower, reference.url)
                self.assertIn("another `berth import` is running", self.tries(self.source).stderr)
                self.sends(server.url, "POST", "/resource_providers", {"name": "of a client of Berth"})
                self.assertEqual(follower.ended(), 1)
                self.assertIn("the first such change was an insert of a row of", follower.output)
            with self.follower(self.source) as follower:
                self.assertEqual(follower.ended(), 1)
            self.assertIn("Berth's database already shows", self.tries(self.source).stderr)
            done = self.finishes(self.source)
            self.assertEqual(done.returncode, 1)
            self.assertIn("another client has changed Berth's database", done.stderr)
            listed = send(server.url, Request("GET", "/resource_providers", "1.39")).body
            self.assertIn(b"of a client of Berth", listed)
            with self.follower(self.source, "--replace") as follower:
                self.caught_up(follower, reference.url)
                self.compares(cloud, reference.url, server.url, CANDIDATES)
                self.assertEqual(follower.stop(), 0)


    def test_it_goes_on_after_an_import_that_was_refused(self) -> None:
        with Reference(self.source).start(self.name) as reference, self.serving() as server:
            cloud = self.fills(random.Random(self.name), reference.url, 60)
            with self.follower(self.source) as follower:
                self.caught_up(follower, reference.url)
                self.assertEqual(follower.stop(), 0)
            self.goes_on(cloud, 20)
            engine = sqlalchemy.create_engine(self.source)
            self.addCleanup(engine.dispose)

            def writes(sql: str) -> None:
                with engine.begin() as connection:
                    connection.execute(sqlalchemy.text(sql))

            # What is refused when everything has been read.
            last = "where id = (select max(id) from resource_providers)"
            writes(f"update resource_providers set uuid = replace(uuid, '-', 'x') {last}")
            with self.follower(self.source, "--replace") as follower:
                self.assertEqual(follower.ended(), 1)
                self.assertIn("the UUID of provider", follower.output)
            writes(f"update resource_providers set uuid = replace(uuid, 'x', '-') {last}")
            self.assertIn("an import that replaces everything was not completed", self.finishes(self.source).stderr)
            with self.follower(self.source) as follower:
                self.caught_up(follower, reference.url)
                self.assertIn("was not completed: reading everything again", follower.output)
                self.compares(cloud, reference.url, server.url, CANDIDATES)
                self.assertEqual(follower.stop(), 0)

    def test_it_does_not_end_while_the_old_service_runs(self) -> None:
        engine = sqlalchemy.create_engine(self.source)
        self.addCleanup(engine.dispose)
        stop = threading.Event()

        def writes() -> None:
            while not stop.is_set():
                with engine.begin() as connection:
                    update = "update resource_providers set generation = generation + 1"
                    connection.execute(sqlalchemy.text(update))

        with Reference(self.source).start(self.name) as reference, self.serving() as server:
            cloud = self.fills(random.Random(self.name), reference.url, 60)
            with self.follower(self.source) as follower:
                self.caught_up(follower, reference.url)
                writer = threading.Thread(target=writes)
                writer.start()
                done = self.finishes(self.source)
                stop.set()
                writer.join()
                self.assertEqual(done.returncode, 1)
                self.assertIn("the old service still runs somewhere", done.stderr)
                self.assertEqual(follower.ended(), 0)
            done = self.finishes(self.source)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.compares(cloud, reference.url, server.url, CANDIDATES)


class Finishing(FollowingCase):
    """`--finish`."""

    def setUp(self) -> None:
        super().setUp()
        self.source = self.enterContext(sources.sqlite())

    def test_it_needs_something_that_is_followed(self) -> None:
        with Reference(self.source).start(self.name):
            pass
        done = self.finishes(self.source)
        self.assertEqual(done.returncode, 1)
        self.assertIn("start with `berth import --follow`", done.stderr)

    def test_it_mends_what_a_round_has_missed(self) -> None:
        with Reference(self.source).start(self.name) as reference:
            cloud = self.fills(random.Random(self.name), reference.url, 60)
            with self.follower(self.source) as follower:
                self.caught_up(follower, reference.url)
                self.assertEqual(follower.stop(), 0)
            # As if a row had been missed: the record of the chunk is that of the source, but not the row.
            self.rows("update berth_import.source_resource_providers set name = 'missed ' || id")
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "report.json"
                done = self.finishes(self.source, "--report", str(file))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"{len(cloud.providers)} differed", file.read_text())
            with self.serving() as server:
                self.compares(cloud, reference.url, server.url, CANDIDATES)

