"""The faults: each is caused under the load, waited out, and mended again."""

import dataclasses
import signal
import time
from collections.abc import Callable

from load import Event, Figures, Load, figures
from nodes import Cluster, Replicas, Watch
from processes import signal_all, wait_until
from streaming import Pair

# Seconds of load before a fault, and after everything answers again.
BEFORE = 5
AFTER = 5
# How long everything has to have answered until a fault counts as over, in seconds.
CALM = 3
# The longest that a fault may take, in seconds.
PATIENCE = 180
# How long the standby of a pair is away, in seconds.
AWAY = 15
# The same of etcd: twice the time after which a primary without it would be deposed.
ETCD_AWAY = 40


@dataclasses.dataclass
class Outcome:
    """What one fault came to."""

    fault: str
    figures: Figures
    lost: int
    # Seconds from the fault until the other node was seen to be the primary.
    promoted: float | None
    # What `berth db check` found; empty: nothing.
    audit: str


class Run:
    """One fault at a time, under a load of its own."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def suffer(
        self,
        fault: str,
        cause: Callable[[], None],
        watched=None,
        then: Callable[[], None] | None = None,
        balanced: bool = False,
    ) -> Outcome:
        """Cause a fault; wait until everything answers; do what comes `then`, and wait again.

        `watched` is the node that is to become primary. With `balanced`, those who ask one replica,
        which is away, do not count.
        """
        ports = {replica.name: replica.port for replica in self._replicas.all}
        load = Load(self._replicas.placement_port, ports)
        load.prepare()
        load.start()
        time.sleep(BEFORE)
        began = time.monotonic()
        watch = Watch(watched) if watched else None
        try:
            cause()
            _wait_until_calm(load.events, time.monotonic())
            if then:
                then()
                _wait_until_calm(load.events, time.monotonic())
            time.sleep(AFTER)
        finally:
            load.stop()
            if watch:
                watch.end()
        seen = watch.seen if watch else None
        audit = self._replicas.berth("db", "check", "--log", "error")
        return Outcome(
            fault=fault,
            figures=figures(load.events, began, seen, balanced),
            lost=load.lost(),
            promoted=seen - began if seen else None,
            audit="" if audit.returncode == 0 else audit.stdout + audit.stderr,
        )


def _wait_until_calm(events: list[Event], since: float) -> None:
    """Until every client has had only good answers, and some, for a while."""

    def is_calm() -> bool:
        now = time.monotonic()
        if now - since < CALM:
            return False
        recent = [event for event in list(events) if event.ended > now - CALM]
        asked = {(event.claims, event.asked) for event in recent}
        # Claims come by the front only; reads by it and by each of two replicas.
        return len(asked) == 4 and all(event.is_good for event in recent)

    wait_until("every request is answered well", is_calm, PATIENCE)


def under_patroni(cluster: Cluster, replicas: Replicas, names: list[str]):
    """Yield the outcome of each fault named, on nodes under Patroni."""
    run = Run(replicas)
    for name in names:
        cluster.wait_until_whole()
        primary, standby = cluster.primary(), cluster.standby()
        if name == "switchover":
            body = {"leader": primary.name, "candidate": standby.name}
            yield run.suffer(
                "planned switch-over", lambda: primary.ask("/switchover", body), standby
            )
        elif name == "kill-postgres":
            yield run.suffer("`kill -9` of the primary's PostgreSQL", primary.kill_postgres, standby)
        elif name == "kill-node":
            yield run.suffer("`kill -9` of the primary's machine", primary.kill, standby)
            primary.start()
        elif name == "freeze":
            yield run.suffer(
                "primary's machine frozen, thawed after the fail-over",
                primary.freeze, standby, then=primary.thaw,
            )  # fmt: skip
        elif name == "standby":
            yield run.suffer("`kill -9` of the synchronous standby's machine", standby.kill)
            standby.start()
        elif name == "etcd":
            yield run.suffer(f"etcd frozen for {ETCD_AWAY} s", lambda: _etcd_frozen(cluster))
        elif name == "rolling":
            yield run.suffer(
                "replicas of Berth restarted one by one (SIGTERM)",
                lambda: _rolled(replicas), balanced=True,
            )  # fmt: skip
        elif name == "kill-replica":
            yield run.suffer(
                "`kill -9` of one replica of Berth, started again",
                lambda: _killed(replicas), balanced=True,
            )  # fmt: skip


def _etcd_frozen(cluster: Cluster) -> None:
    signal_all([cluster.etcd.pid], signal.SIGSTOP)
    time.sleep(ETCD_AWAY)
    signal_all([cluster.etcd.pid], signal.SIGCONT)


def _rolled(replicas: Replicas) -> None:
    for replica in replicas.all:
        replica.stop()
        replica.start()
        replica.wait_until_ready()


def _killed(replicas: Replicas) -> None:
    replicas.all[0].kill()
    replicas.all[0].start()
    replicas.all[0].wait_until_ready()


def by_hand(folder, make_replicas, names: list[str]):
    """Yield the outcome of each fault named, on a pair that is made anew for each."""
    for name in names:
        pair = Pair(folder / name)
        replicas = None
        try:
            pair.start()
            replicas = make_replicas(folder / name, pair.nodes)
            replicas.start()
            yield _by_hand(name, pair, replicas)
        finally:
            if replicas:
                replicas.stop()
            pair.stop()


def _by_hand(name: str, pair: Pair, replicas: Replicas) -> Outcome:
    first, second = pair.nodes
    run = Run(replicas)
    if name == "promote":

        def killed() -> None:
            first.kill()
            second.promote()

        return run.suffer("`kill -9` of the primary, standby promoted at once", killed, second)

    if name == "standby":

        def away() -> None:
            second.freeze()
            time.sleep(AWAY)
            second.thaw()

        return run.suffer(f"synchronous standby frozen for {AWAY} s", away)

    def frozen() -> None:
        first.freeze()
        second.promote()

    return run.suffer(
        "primary frozen, standby promoted at once, primary thawed without fencing",
        frozen, second, then=first.thaw,
    )  # fmt: skip


PATRONI = [
    "switchover", "kill-postgres", "kill-node", "freeze", "standby", "etcd", "rolling", "kill-replica",
]  # fmt: skip
BY_HAND = ["promote", "thaw", "standby"]
