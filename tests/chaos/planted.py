"""A bad proxy between the clients and Berth, with one defect at a time: each must be caught.

What stands here is what a defect of Berth would look like from outside.
"""

import asyncio
import contextlib
import json
import random
import time

import violations as kinds
from databases import Node
from wire import Answer, Broken, Connection, Unreached
from world import World

# The defect, and the kinds of violations of which at least one must be reported.
DEFECTS = {
    "lost-write": {kinds.LOST, kinds.STALE},
    "refused-applied": {kinds.REFUSED_APPLIED},
    "oversold": {kinds.OVERSOLD},
    "stale-replica": {kinds.STALE},
    "half-post": {kinds.HALF},
    "guard-ignored": {kinds.GUARD},
    "applied-twice": {kinds.CONTRADICTION},
    "generation-back": {kinds.BACK},
    "generation-twice": {kinds.TWICE},
    "exclusive-shared": {kinds.SHARED},
    "plan-lost": {kinds.LOST, kinds.STALE},
    "hold-lost": {kinds.LOST},
    "error-500": {kinds.STATUS},
    "no-retry-after": {kinds.STATUS},
    "refused-connections": {kinds.OUTSIDE},
}
CACHED_SECONDS = 2.0

# A stranger gets what nobody gave it, on a host that a group has to itself.
SHARE = """
with host as (
    select e.root_id as id from exclusive_units e join providers p on p.id = e.root_id
     where p.uuid = any({planned}) limit 1
), stranger as (
    select c.id from consumers c where c.uuid = any({consumers}) limit 1
), added as (
    insert into allocation_sets (consumer_id, provider_id, class_ids, used)
    select s.id, h.id, array_agg(i.class_id), array_agg(1) from stranger s, host h join inventories i on i.provider_id = h.id
     group by s.id, h.id
        on conflict do nothing returning provider_id, class_ids
)
update inventories i set used = i.used + 1 from added a
 where i.provider_id = a.provider_id and i.class_id = any(a.class_ids);
"""

# More than there is, and counted as such.
OVERSELL = """
with added as (
    update allocation_sets set used[1] = used[1] + 100 where (consumer_id, provider_id) in (
        select a.consumer_id, a.provider_id from allocation_sets a
          join providers p on p.id = a.provider_id where p.uuid = any({hosts}) limit 1)
    returning provider_id, class_ids[1] as class_id
)
update inventories i set used = i.used + 100 from added a
 where i.provider_id = a.provider_id and i.class_id = a.class_id;
"""


class BadProxy:
    """A server in front of one port of a replica."""

    def __init__(self, defect: str, replica: str, port: int, database: Node, world: World, seed: int) -> None:
        self._defect = defect
        self._replica = replica
        self._upstream = port
        self._database = database
        self._world = world
        self._random = random.Random(seed)
        self._cache: dict[str, tuple[float, Answer]] = {}
        # Of a provider whose inventories were written: the generation before and after.
        self._hidden: dict[str, tuple[int, int]] = {}
        self._server: asyncio.Server | None = None
        self.active = False
        # What went wrong with the planting itself.
        self.failure: Exception | None = None

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        return self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self._upstream)
        try:
            await self._exchange(connection, reader, writer)
        except Exception as failure:
            self.failure = failure
        finally:
            connection.close()
            writer.transport.abort()

    async def _exchange(self, connection: Connection, reader, writer) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, Unreached, Broken):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split()
                headers = dict(line.split(": ", 1) for line in head[1:] if line)
                length = int(headers.pop("Content-Length", 0))
                body = json.loads(await reader.readexactly(length)) if length else None
                for name in ("Host", "Content-Type"):
                    headers.pop(name, None)
                if self._defect == "refused-connections" and self._chance(0.05):
                    break
                answer = await self._answer(connection, method, path, headers, body)
                writer.write(render(answer))
                await writer.drain()

    def _chance(self, share: float) -> bool:
        return self.active and self._random.random() < share

    async def _answer(self, connection: Connection, method: str, path: str, headers: dict, body) -> Answer:
        ask = lambda *changed: connection.ask(*(changed or (method, path, headers, body)))  # noqa: E731
        claim = method == "PUT" and path.startswith("/allocations/")
        match self._defect:
            case "lost-write" if claim and self._chance(0.2):
                return Answer(204, {}, b"")
            case "refused-applied" if claim and self._chance(0.3):
                answer = await ask()
                return refusal() if answer.status == 204 else answer
            case "half-post" if method == "POST" and path == "/allocations" and self._chance(0.9):
                one = self._random.choice([name for name in body if body[name]["allocations"]])
                # The other one keeps what it has.
                return await ask(method, path, headers, {one: body[one]})
            case "guard-ignored" if claim and "consumer_generation" in body and self._chance(0.9):
                older = {name: value for name, value in body.items() if not name.startswith("consumer_")}
                if not body["allocations"]:
                    return await ask()
                return await ask(method, path, {**headers, "OpenStack-API-Version": "placement 1.27"}, older)
            case "applied-twice" if claim and "consumer_generation" not in body and self._chance(0.5):
                await ask()
            case "plan-lost" if method == "POST" and path == "/v1/plans" and self._chance(0.7):
                answer = await ask(method, f"{path}?dry_run=true", headers, body)
                return Answer(201 if answer.status == 200 else answer.status, answer.headers, answer.text)
            case "error-500" if self._chance(0.03):
                return Answer(500, {}, b"{}")
            case "no-retry-after" if self._chance(0.03):
                return Answer(503, {}, b"{}")
            case "stale-replica" if method == "GET" and self._replica == "r1" and self.active:
                return await self._cached(path, ask)
        answer = await ask()
        return await self._after(method, path, body, answer)

    async def _cached(self, path: str, ask) -> Answer:
        at, answer = self._cache.get(path, (0.0, None))
        if time.monotonic() - at > CACHED_SECONDS:
            answer = await ask()
            self._cache[path] = (time.monotonic(), answer)
        return answer

    async def _after(self, method: str, path: str, body, answer: Answer) -> Answer:
        """Defects that show after a request was done, or in its answer."""
        if not self.active or answer.status >= 400:
            return answer
        claim = method == "PUT" and path.startswith("/allocations/")
        if self._defect == "oversold" and claim and self._chance(0.1):
            await self._sql(OVERSELL)
        elif self._defect == "exclusive-shared" and self._chance(0.05):
            await self._sql(SHARE)
        elif self._defect == "generation-back" and method == "GET" and self._chance(0.3):
            return rewritten(answer, "resource_provider_generation", lambda generation: generation - 2)
        elif self._defect == "generation-twice" and path.endswith("/inventories"):
            return self._hide(method, path, body, answer)
        elif self._defect == "hold-lost" and method == "POST" and path == "/v1/plans" and self._chance(0.7):
            await self._drop_holds(answer.json()["id"])
        return answer

    def _hide(self, method: str, path: str, body, answer: Answer) -> Answer:
        """Show new inventories under the generation of the old."""
        name = "resource_provider_generation"
        if method == "PUT":
            self._hidden[path] = (body[name], answer.json()[name])
        before, after = self._hidden.get(path, (0, -1))
        return rewritten(answer, name, lambda generation: before if generation == after else generation)

    async def _drop_holds(self, plan: str) -> None:
        consumers = (
            "(select c.id from consumers c join placements m on m.consumer = c.uuid"
            f" where m.plan_id = '{plan}')"
        )
        await self._sql(
            "update inventories i set used = i.used - a.used from (select provider_id, class_id, sum(used) as used"
            f" from allocations where consumer_id in {consumers} group by 1, 2) a"
            " where i.provider_id = a.provider_id and i.class_id = a.class_id;"
            f"delete from allocation_sets where consumer_id in {consumers};"
            f"delete from consumers where id in {consumers};"
        )

    async def _sql(self, text: str) -> None:
        array = lambda uuids: "'{" + ",".join(uuids) + "}'::uuid[]"  # noqa: E731
        filled = text.replace("{planned}", array(self._world.planned.values()))
        filled = filled.replace("{hosts}", array(self._world.hosts))
        filled = filled.replace("{consumers}", array(self._world.consumers))
        await asyncio.to_thread(self._database.sql, f"begin;{filled}commit;")


def rewritten(answer: Answer, name: str, change) -> Answer:
    document = answer.json()
    if not isinstance(document, dict) or name not in document:
        return answer
    document[name] = max(0, change(document[name]))
    return Answer(answer.status, answer.headers, json.dumps(document).encode())


def refusal() -> Answer:
    error = {"status": 409, "title": "Conflict", "code": "placement.undefined_code", "detail": "It does not fit."}
    return Answer(409, {}, json.dumps({"errors": [error]}).encode())


def render(answer: Answer) -> bytes:
    kept = {k: v for k, v in answer.headers.items() if k not in ("content-length", "transfer-encoding", "connection")}
    lines = [f"HTTP/1.1 {answer.status} -", *(f"{name}: {value}" for name, value in kept.items())]
    lines.append(f"content-length: {len(answer.text)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + answer.text
