"""One trial: a new world, clients, faults or a planted defect, and the verdict."""

import argparse
import asyncio
import dataclasses
import math
import random
import time

import books
import copies
import verdict
from answers import Window
from api import Caller, Replica
from faults import Faults
from history import OK, History
from planning import Planner
from planted import BadProxy
from stage import Stage
from violations import Violation
from workload import Claimant, Owner, Reader, read_candidates, read_consumer, read_project, read_provider
from world import World

PLANNERS, OWNERS, READERS, KEEPERS = 3, 1, 3, 3
# Longer than this process should ever wait for its turn.
STALLED_SECONDS = 0.5
CLIENTS_END_WITHIN_SECONDS = 180
# For what clients that went away have asked last.
SETTLE_SECONDS = 1


@dataclasses.dataclass
class Outcome:
    """What a trial came to. `span` is when clients began and when they were told to end."""

    history: History
    windows: list[Window]
    judged: verdict.Verdict
    span: tuple[float, float]
    keepers: list[copies.Keeper]


async def with_faults(chosen: argparse.Namespace, stage: Stage) -> Outcome:
    random_ = random.Random(chosen.seed)
    faults = Faults(stage, random_, chosen.quiet)
    names = [name for name in chosen.faults if name != "disk-full" or not stage.disks_refused]
    say = (lambda words: print(f"  {words}", flush=True)) if chosen.verbose else (lambda words: None)
    await stage.ready()
    seconds = math.inf if chosen.once else chosen.seconds
    until = lambda began: faults.run(names, began + seconds, say)  # noqa: E731
    return await _trial(chosen, stage, random_, stage.replicas, faults.windows, until)


async def with_defect(
    chosen: argparse.Namespace, stage: Stage, defect: str, seconds: float, attempt: int
) -> list[Violation]:
    """Run with a bad proxy in front of each replica; return what was found."""
    random_ = random.Random(f"{chosen.seed} {defect} {attempt}")
    chosen = argparse.Namespace(**{**vars(chosen), "hosts": 6, "consumers": 30, "rate": 150})
    proxies: list[BadProxy] = []

    async def spoiled(replica: Replica, world: World) -> Replica:
        ports = []
        for port in (replica.placement, replica.planner):
            seed = random_.getrandbits(32)
            proxies.append(BadProxy(defect, replica.name, port, stage.pair.primary, world, seed))
            ports.append(await proxies[-1].start())
        return Replica(replica.name, *ports)

    async def until(began: float) -> None:
        for proxy in proxies:
            proxy.active = True
        await asyncio.sleep(seconds)

    try:
        outcome = await _trial(chosen, stage, random_, stage.replicas, [], until, spoiled)
    finally:
        for proxy in proxies:
            proxy.stop()
            if proxy.failure:
                raise RuntimeError(f"{defect} could not be planted") from proxy.failure
    return outcome.judged.violations


async def _trial(chosen, stage: Stage, random_, replicas, windows, until, spoiled=None) -> Outcome:
    history = History()
    world = World(random_, chosen.hosts, chosen.consumers)
    harness = Caller("harness", world.projects[0], history, replicas)
    await world.build(harness, replicas[0].name)
    reached = [await spoiled(replica, world) for replica in replicas] if spoiled else replicas

    # What a faulty proxy makes of events is another matter.
    keepers = [
        copies.Keeper(f"copy{number}", replicas, random_.getrandbits(32))
        for number in range(0 if spoiled else KEEPERS)
    ]
    done = asyncio.Event()
    clients = make_clients(chosen, reached, world, history, random_)
    began = time.monotonic()
    provoking = asyncio.create_task(until(began))
    tasks = [asyncio.create_task(client.run(done)) for client in clients]
    tasks += [asyncio.create_task(keeper.run(done)) for keeper in keepers]
    tasks.append(asyncio.create_task(books.watch(lambda: stage.pair.primary, world, history, done)))
    tasks.append(asyncio.create_task(notice_stalls(windows, done)))
    # Whoever fails ends the trial.
    await asyncio.wait([provoking, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in (provoking, *tasks):
        if task.done():
            task.result()
    done.set()
    span = (began, time.monotonic())
    async with asyncio.timeout(CLIENTS_END_WITHIN_SECONDS):
        await asyncio.gather(*tasks)
    await stage.ready()
    await final_reads(harness, stage, world, history)
    if keepers:
        last = await copies.bulk(replicas[0])
        await asyncio.gather(*(keeper.end(last) for keeper in keepers))
    for caller in (harness, *(client.caller for client in clients)):
        caller.close()
    allowed = verdict.Parameters(chosen.after, chosen.bound, chosen.deposed, chosen.lease)
    judged = await asyncio.to_thread(verdict.judge, history, world, windows, stage.names, allowed)
    judged.violations += [it for keeper in keepers for it in keeper.violations]
    judged.violations += copies.disagreements(keepers)
    return Outcome(history, windows, judged, span, keepers)


def make_clients(chosen, replicas: list[Replica], world: World, history: History, random_) -> list:
    # Each client pauses so long that all together make about so many operations a second.
    pause = 1.5 * (chosen.clients + PLANNERS + OWNERS + READERS) / chosen.rate
    clients: list = []
    for count, kind in ((chosen.clients, Claimant), (OWNERS, Owner), (PLANNERS, Planner)):
        for _ in range(count):
            caller = Caller(f"c{len(clients)}", random_.choice(world.projects), history, replicas)
            clients.append(kind(caller, world, random_.getrandbits(32), pause))
    for number in range(READERS):
        # The seed says which replica is its own.
        caller = Caller(f"reader{number}", world.projects[0], history, replicas)
        clients.append(Reader(caller, world, number, pause))
    return clients


async def notice_stalls(windows: list[Window], until: asyncio.Event) -> None:
    """Times in which this process itself did not come to run count as a fault of the machine."""
    while not until.is_set():
        before = time.monotonic()
        await asyncio.sleep(0.05)
        after = time.monotonic()
        if after - before > STALLED_SECONDS:
            windows.append(Window("machine-stalled", before, after, after, measured=False))


async def final_reads(caller: Caller, stage: Stage, world: World, history: History) -> None:
    """Read everything from every replica and from the database, as the last reads of the history."""
    await asyncio.sleep(SETTLE_SECONDS)
    await books.look(stage.pair.primary, world, history)
    state = await books.read_state(stage.pair.primary, world, history)
    if state.outcome != OK:
        raise RuntimeError(f"the database cannot be read at the end: {state.note}")
    everybody = {*world.consumers, *state.response.pop("all")}

    async def read_all(replica: str) -> None:
        for consumer in sorted(everybody):
            await read_consumer(caller, replica, consumer)
        for provider in world.hosts:
            for kind in ("allocations", "usages", "inventories", "traits"):
                await read_provider(caller, replica, kind, provider)
        await read_provider(caller, replica, "all", "")
        await read_candidates(caller, replica, 1, 1000)
        for project in world.projects:
            await read_project(caller, replica, project)

    await asyncio.gather(*(read_all(replica) for replica in stage.names))
