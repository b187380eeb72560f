"""What is done to the replicas, the databases and the connections between them.

Each fault notes in a Window when it began, when what was taken away was there again, and when all
was over. Between two faults there is some quiet, in which nothing may go wrong.
"""

import asyncio
import contextlib
import math
import os
import pathlib
import random
import signal
import time

from answers import Window
from databases import Node, Unavailable
from programs import descendants
from stage import PROXY, Stage

now = time.monotonic


class Faults:
    """All faults, by name, over one stage."""

    def __init__(self, stage: Stage, random_: random.Random, quiet: float) -> None:
        self.stage = stage
        self.random = random_
        self.windows: list[Window] = []
        self._quiet = quiet
        self.all = {
            "replica-kill": self.replica_kill,
            "replica-restart": self.replica_restart,
            "replica-freeze": self.replica_freeze,
            "database-kill": self.database_kill,
            "database-restart": self.database_restart,
            "database-freeze": self.database_freeze,
            "backend-kill": self.backend_kill,
            "start-without-database": self.start_without_database,
            "standby-kill": self.standby_kill,
            "standby-freeze": self.standby_freeze,
            "switch-over": self.switch_over,
            "failover-kill": self.failover_kill,
            "failover-frozen": self.failover_frozen,
            "failover-unfenced": self.failover_unfenced,
            "split-brain": self.split_brain,
            "cut": self.cut,
            "cut-after-commit": self.cut_after_commit,
            "link-freeze": self.link_freeze,
            "link-refuse": self.link_refuse,
            "link-delay": self.link_delay,
            "disk-full": self.disk_full,
            "long-transaction": self.long_transaction,
            "row-lock": self.row_lock,
        }

    async def run(self, names: list[str], until: float, say) -> None:
        """One fault after the other until a time, each once before any comes again.

        If the time is infinite, each once.
        """
        left = self.random.sample(names, len(names))
        while True:
            await asyncio.sleep(self._quiet)
            if now() >= until or (until == math.inf and not left):
                return
            left = left or self.random.sample(names, len(names))
            if not left:
                continue
            name = left.pop()
            window = Window(name, now())
            self.windows.append(window)
            await self.all[name](window)
            window.end = now()
            say(f"{name}: {window.end - window.begin:.1f} s")

    # Replicas

    async def replica_kill(self, window: Window) -> None:
        name = self._replica(window)
        await asyncio.to_thread(self.stage.programs[name].kill)
        await self._wait(0.1, 1.5)
        await self._start_replica(name, window)

    async def replica_restart(self, window: Window) -> None:
        name = self._replica(window)
        program = self.stage.programs[name]
        program.signal(signal.SIGTERM)
        if not await asyncio.to_thread(program.wait, 45):
            raise RuntimeError(f"{name} did not stop within 45 s of SIGTERM\n{program.tail()}")
        await self._start_replica(name, window)

    async def replica_freeze(self, window: Window) -> None:
        """Frozen inside a transaction, it holds rows that the others need."""
        program = self.stage.programs[self.random.choice(self.stage.names)]
        program.signal(signal.SIGSTOP)
        await self._wait(1, 6)
        program.signal(signal.SIGCONT)
        window.returned = now()

    async def _start_replica(self, name: str, window: Window) -> None:
        self.stage.restart(name)
        window.returned = now()
        await self.stage.ready([name])

    # Databases that stay what they are

    async def database_kill(self, window: Window) -> None:
        node = self.stage.pair.primary
        await asyncio.to_thread(node.program.kill)
        await self._wait(0.1, 2)
        await self._start_primary(window)

    async def database_restart(self, window: Window) -> None:
        await asyncio.to_thread(self.stage.pair.primary.stop)
        await self._start_primary(window)

    async def _start_primary(self, window: Window) -> None:
        await asyncio.to_thread(self.stage.pair.primary.start)
        window.returned = now()
        # Until the standby is back no commit ends.
        await asyncio.to_thread(self.stage.pair.wait_for_standby, True)
        window.returned = now()

    async def database_freeze(self, window: Window) -> None:
        node = self.stage.pair.primary
        await asyncio.to_thread(node.freeze)
        await self._wait(1, 8)
        await asyncio.to_thread(node.thaw)
        window.returned = now()

    async def backend_kill(self, window: Window) -> None:
        """PostgreSQL ends all sessions and recovers when one of its processes dies."""
        node = self.stage.pair.primary
        query = "select pid from pg_stat_activity where application_name like 'berth@%' limit 1"
        pid = await asyncio.to_thread(node.sql, query)
        if pid and int(pid) in descendants(node.program.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        await asyncio.sleep(0.1)
        await self._until_primary_answers()
        await asyncio.to_thread(self.stage.pair.wait_for_standby, True)
        window.returned = now()

    async def start_without_database(self, window: Window) -> None:
        """A replica is started while the database is away, and waits for it."""
        name = self.random.choice(self.stage.names)
        await asyncio.to_thread(self.stage.pair.primary.program.kill)
        await asyncio.to_thread(self.stage.programs[name].kill)
        self.stage.restart(name)
        await self._wait(1, 3)
        await self._start_primary(window)
        await self.stage.ready([name])

    async def standby_kill(self, window: Window) -> None:
        """Commits hang until it is back; reads need none."""
        node = self.stage.pair.standby
        await asyncio.to_thread(node.program.kill)
        await self._wait(1, 8)
        await asyncio.to_thread(node.start)
        await asyncio.to_thread(self.stage.pair.wait_for_standby, True)
        window.returned = now()

    async def standby_freeze(self, window: Window) -> None:
        node = self.stage.pair.standby
        await asyncio.to_thread(node.freeze)
        await self._wait(1, 8)
        await asyncio.to_thread(node.thaw)
        window.returned = now()

    # The standby becomes the primary

    async def switch_over(self, window: Window) -> None:
        """Planned: the primary stops in good order, so that the standby has everything."""
        pair = self.stage.pair
        await asyncio.to_thread(pair.primary.stop)
        await self._promote(window)
        await asyncio.to_thread(pair.standby.follow, pair.primary)
        await asyncio.to_thread(pair.settle)

    async def failover_kill(self, window: Window) -> None:
        await asyncio.to_thread(self.stage.pair.primary.program.kill)
        await self._wait(0.1, 1)
        await self._promote(window)
        await self._rebuild()

    async def failover_frozen(self, window: Window) -> None:
        """The old primary is frozen, and thaws when the new one is there; proxies cut sessions."""
        await self._depose(window, cut=True)

    async def failover_unfenced(self, window: Window) -> None:
        """The same, but sessions with the old primary stay."""
        await self._depose(window, cut=False)

    async def _depose(self, window: Window, cut: bool) -> None:
        old = self.stage.pair.primary
        await asyncio.to_thread(old.freeze)
        await self._wait(0.5, 2)
        await self._promote(window, cut)
        window.deposed = {name: window.returned for name in self.stage.names}
        await self._wait(0.5, 3)
        await asyncio.to_thread(old.thaw)
        await self._wait(2, 6)
        await self._rebuild()

    async def split_brain(self, window: Window) -> None:
        """Two primaries that both are alive. One replica reaches nothing but the old one for a while."""
        stage = self.stage
        alone = self.random.choice(stage.names)
        old, new = stage.pair.primary, stage.pair.standby
        if stage.route != PROXY:
            for link in stage.links_of(alone, new):
                stage.links.refuse(link, True)
                stage.links.cut(link)
        window.promoted = now()
        await asyncio.to_thread(stage.pair.promote)
        stage.redirect([name for name in stage.names if name != alone], cut=self.random.random() < 0.5)
        window.returned = now()
        await self._wait(2, 6)
        stage.redirect([alone], cut=self.random.random() < 0.5)
        for link in stage.links_of(alone, new) if stage.route != PROXY else []:
            stage.links.refuse(link, False)
        window.deposed = {name: window.returned for name in stage.names} | {alone: now()}
        window.returned = now()
        await self._wait(2, 4)
        assert old is stage.pair.standby
        await self._rebuild()

    async def _promote(self, window: Window, cut: bool = True) -> None:
        window.promoted = now()
        await asyncio.to_thread(self.stage.pair.promote)
        self.stage.redirect(self.stage.names, cut)
        window.returned = now()

    async def _rebuild(self) -> None:
        await asyncio.to_thread(self.stage.pair.rebuild, self.random.random() < 0.5)

    # Connections

    async def cut(self, window: Window) -> None:
        for link in self._links(window):
            self.stage.links.cut(link)
        window.returned = now()
        await asyncio.sleep(0.5)

    async def cut_after_commit(self, window: Window) -> None:
        """The commit is done, and who asked for it never hears of it."""
        links = [link for name in self.stage.names for link in self.stage.links_of(name)]
        for link in links:
            self.stage.links.cut_after_commit(link, self.random.randint(1, 4))
        await self._wait(1, 2)
        for link in links:
            self.stage.links.cut_after_commit(link, 0)
        window.returned = now()

    async def link_freeze(self, window: Window) -> None:
        """Nothing comes through and nothing is closed, as when packets are dropped."""
        links = self._links(window)
        for link in links:
            self.stage.links.freeze(link, True)
        await self._wait(1, 6)
        for link in links:
            if self.random.random() < 0.5:
                self.stage.links.cut(link)
            self.stage.links.freeze(link, False)
        window.returned = now()
        window.replicas = None

    async def link_refuse(self, window: Window) -> None:
        links = self._links(window)
        for link in links:
            self.stage.links.refuse(link, True)
            self.stage.links.cut(link)
        await self._wait(1, 4)
        for link in links:
            self.stage.links.refuse(link, False)
        window.returned = now()

    async def link_delay(self, window: Window) -> None:
        links = self._links(window)
        for link in links:
            self.stage.links.delay(link, self.random.uniform(0.02, 0.1))
        await self._wait(2, 4)
        for link in links:
            self.stage.links.delay(link, 0)
        window.returned = now()
        window.replicas = None

    def _links(self, window: Window) -> list[str]:
        """The links of one replica, or of all."""
        if self.random.random() < 0.5:
            return [link for name in self.stage.names for link in self.stage.links_of(name)]
        return self.stage.links_of(self._replica(window))

    # The rest

    async def disk_full(self, window: Window) -> None:
        node = self.stage.pair.primary
        filler = node.folder / "filler"
        fill(filler)
        # What is freed meanwhile is filled again.
        for _ in range(self.random.randint(3, 8)):
            await asyncio.sleep(1)
            fill(filler)
        filler.unlink()
        await self._until_primary_answers()
        await asyncio.to_thread(self.stage.pair.wait_for_standby, True)
        window.returned = now()

    async def long_transaction(self, window: Window) -> None:
        """A stranger's transaction that has written and does not end."""
        window.measured = False
        with self._session("create table if not exists stranger (a int); begin; insert into stranger values (1);"):
            await self._wait(4, 10)

    async def row_lock(self, window: Window) -> None:
        """An administrator with psql has locked a provider."""
        window.measured = False
        with self._session("begin; select from providers order by random() limit 1 for update;"):
            await self._wait(2, 5)

    @contextlib.contextmanager
    def _session(self, statements: str):
        session = self.stage.pair.primary.session()
        try:
            session.stdin.write(statements + "\n")
            session.stdin.flush()
            yield
        finally:
            session.kill()
            session.wait()

    async def _until_primary_answers(self) -> None:
        """Wait until the primary takes writes; start it if it has ended by itself."""
        node: Node = self.stage.pair.primary
        query = "create temporary table chaos_probe (a int); drop table chaos_probe"
        deadline = now() + 120
        while now() < deadline:
            if not node.program.is_running():
                await asyncio.to_thread(node.start)
            try:
                await asyncio.to_thread(node.sql, query, "postgres", 5)
                return
            except Unavailable:
                await asyncio.sleep(0.05)
        raise RuntimeError(f"the primary is not back\n{node.program.tail()}")

    def _replica(self, window: Window) -> str:
        name = self.random.choice(self.stage.names)
        window.replicas = [name]
        return name

    async def _wait(self, least: float, most: float) -> None:
        await asyncio.sleep(self.random.uniform(least, most))


def fill(file: pathlib.Path) -> None:
    """Take all that is left of a file system."""
    with contextlib.suppress(OSError), open(file, "ab", buffering=0) as out:
        for size in (2**20, 2**12):
            with contextlib.suppress(OSError):
                while out.write(bytes(size)):
                    pass
