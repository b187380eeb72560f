"""Berth: a server over a database with an instance's cloud, asked over HTTP for a dry run."""

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

from harness.environment import TARGET
from harness.ports import free_port
from harness.postgres import Cluster
from harness.servers import running

from cost import NAMES
from instances import Instance

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from clouds import Cloud, statements  # noqa: E402

PROGRAM = TARGET / "release" / "berth"
PROJECT = "3a17c0de000040008000000000000001"
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB"}


@dataclasses.dataclass
class Result:
    """What Berth answered."""

    placement: list[int] | None
    cost: tuple[int, ...] | None
    bound: tuple[int, ...] | None
    proven: bool
    status: int
    why: str
    # Seconds until the first placement was known, and in all.
    first: float | None
    took: float


@dataclasses.dataclass
class PolicyResult:
    """What Berth answered under another policy."""

    proven: bool
    # The part of the last component that the bound leaves open; None if the bound leaves others open, too.
    gap: float | None


@dataclasses.dataclass
class Planner:
    """A running planner: its URL, and the file of its log."""

    url: str
    log: pathlib.Path

    def first(self) -> float | None:
        """Seconds until the first placement of the last plan was known."""
        for line in reversed(self.log.read_text().splitlines()):
            if "first_us" in line:
                return int(json.loads(line)["first_us"]) / 1e6
        return None


@contextlib.contextmanager
def serving(cluster: Cluster, instance: Instance):
    """A planner whose cloud is that of the instance."""
    database = f"plans_{instance.name}".replace("-", "_")
    cluster.create(database)
    url = cluster.url(database)
    migrate = subprocess.run(
        [str(PROGRAM), "db", "migrate", "--database-url", url], capture_output=True, text=True
    )
    if migrate.returncode != 0:
        sys.exit(f"berth db migrate failed:\n{migrate.stdout}{migrate.stderr}")
    cloud = Cloud(instance.name, len(instance.hosts), _cloud(instance))
    cluster.execute(statements(cloud, "berth"), database)
    planner = f"127.0.0.1:{free_port()}"
    command = [PROGRAM, "serve", "--auth", "noauth2", "--database-url", url, "--planner-listen", planner]
    command += ["--log", "warn,berth::planning=debug", "--log-format", "json"]
    listen = lambda port: ["--listen", f"127.0.0.1:{port}"]  # noqa: E731
    try:
        with running(f"bench-{database}", command, listen) as server:
            _make_groups(f"http://{planner}", instance)
            yield Planner(f"http://{planner}", server.log)
    finally:
        cluster.drop(database)


def _make_groups(url: str, instance: Instance) -> None:
    """Exclusivity groups are always stored."""
    for number, group in enumerate(instance.groups):
        if group.kind != "exclusivity":
            continue
        body = {"name": f"group-{number}", "type": "exclusivity", "level": group.level}
        members = (f"/v1/groups/group-{number}/members", {"members": [PROJECT]})
        for method, path, sent in (("POST", "/v1/groups", body), ("PUT", *members)):
            status, _, answer = _ask(url, method, path, sent)
            if status != 201:
                raise RuntimeError(f"{method} {path}: {status} {answer}")


def plan(planner: Planner, instance: Instance, seconds: int) -> Result:
    """One dry run."""
    began = time.monotonic()
    status, headers, body = _ask(planner.url, "POST", "/v1/plans?dry_run=true", request(instance, seconds))
    took = time.monotonic() - began
    if status != 200:
        return Result(None, None, None, False, status, body.get("explanation", ""), None, took)
    quality = json.loads(headers["berth-plan"])
    cost, bound = (tuple(quality[part][name] for name in NAMES) for part in ("cost", "bound"))
    host_of = {host.name: nth for nth, host in enumerate(instance.hosts)}
    places = body["placements"]
    placement = [host_of[places[f"s{nth}"]["location"]] for nth in range(len(instance.servers))]
    return Result(placement, cost, bound, quality["optimal"], status, "", planner.first(), took)


def plan_under(planner: Planner, instance: Instance, seconds: int, policy: dict) -> PolicyResult | None:
    """One dry run under a policy; None if there is no plan."""
    body = request(instance, seconds) | {"policy": policy}
    status, headers, _ = _ask(planner.url, "POST", "/v1/plans?dry_run=true", body)
    if status != 200:
        return None
    quality = json.loads(headers["berth-plan"])
    cost, bound = (list(quality[part].values()) for part in ("cost", "bound"))
    gap = 1 - bound[-1] / cost[-1] if cost[-1] else 0.0
    return PolicyResult(quality["optimal"], gap if cost[:-1] == bound[:-1] else None)


def request(instance: Instance, seconds: int) -> dict:
    """The body that asks for a plan."""
    resources: dict = {}
    for nth, flavor in enumerate(instance.servers):
        properties = {"resources": instance.needs[flavor]}
        resources[f"s{nth}"] = {"type": "OS::Nova::Server", "properties": properties}
    for number, group in enumerate(instance.groups):
        properties = {"level": group.level, "resources": [f"s{nth}" for nth in group.servers]}
        if group.kind == "exclusivity":
            properties["group"] = f"group-{number}"
        else:
            properties["group_type"] = group.kind
        if group.most > 1:
            properties["max_per_unit"] = group.most
        if group.skew is not None:
            properties["max_skew"] = group.skew
        resources[f"g{number}"] = {"type": "OS::Valet::GroupAssignment", "properties": properties}
    return {
        "plan_name": instance.name, "stack_id": instance.name, "timeout": f"{seconds} sec",
        "resources": resources,
    }  # fmt: skip


def _ask(url: str, method: str, path: str, body: dict):
    headers = {"X-Auth-Token": f"admin:{PROJECT}", "Content-Type": "application/json"}
    call = urllib.request.Request(url + path, json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(call, timeout=120) as answer:
            return answer.status, answer.headers, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.loads(error.read() or b"{}")


def _cloud(instance: Instance) -> str:
    """Statements that fill the neutral tables. Provider n is provider n + 1 there."""
    providers, traits, members = [], [], []
    for n, it in enumerate(instance.providers):
        parent = "null" if it.parent is None else it.parent + 1
        providers.append(f"({n + 1}, id_of(1, {n + 1}), '{it.name}', {parent}, {it.root + 1})")
        traits += [f"({n + 1}, '{trait}')" for trait in it.traits]
        members += [f"({n + 1}, {aggregate + 1})" for aggregate in it.aggregates]
    # The hosts of a rack share its storage by an aggregate.
    stocks = [f"({it.provider + 1}, '{it.name}', {it.total}, {it.total})" for it in instance.pools]
    holdings = [f"({it.provider + 1}, {it.provider + 1}, '{it.name}', {it.used})" for it in instance.pools if it.used]
    parts = [
        ("provider", providers), ("stock (provider, class, total, max_unit)", stocks),
        ("quality", traits), ("member", members), ("holding", holdings),
    ]  # fmt: skip
    return "".join(f"insert into {table} values {', '.join(rows)};\n" for table, rows in parts if rows)
