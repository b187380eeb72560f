"""Clients of the planner: each makes stacks, reserves, lets instances come, and takes all away.

What the checkers need is in `request` and `response`:

    every operation   request: stack, and the id of the plan where it is known
    a plan            response: plan {id, placements {orchestration id: location}}, null if there is none
    a placement       response: placement {id, location, reserved, resource}
"""

import asyncio
import uuid

from api import Caller
from history import OK, REFUSED, UNREACHED
from workload import Client, consumer_view
from world import World

AMOUNTS = {"VCPU": 2, "MEMORY_MB": 1024}


class Planner(Client):
    """One orchestrator with one stack at a time."""

    def __init__(self, caller: Caller, world: World, seed: int, pause: float) -> None:
        super().__init__(caller, world, seed, pause)
        self._number = 0

    async def run(self, until: asyncio.Event) -> None:
        while not until.is_set():
            await self.stack(until)
            await self.rest()

    async def rest(self) -> None:
        await asyncio.sleep(self.random.expovariate(1 / self._pause))

    async def stack(self, until: asyncio.Event) -> None:
        """The life of one stack. It ends with its plan deleted, as far as can be known."""
        self._number += 1
        stack = f"stack-{self.world.mark}-{self.caller.name}-{self._number}"
        servers = [f"{stack}-{letter}" for letter in "abc"[: self.random.randint(1, 3)]]
        group = self.random.choice([None, *self.world.groups])
        made = None
        for _ in range(4):
            made = await self.create(stack, servers, group)
            await self.rest()
            if made.outcome in (OK, REFUSED) or until.is_set():
                break
        if made.outcome != OK:
            # Unless it was refused, nobody knows whether it is there.
            if made.outcome != REFUSED:
                await self.delete(stack)
            return
        plan = made.response["plan"]
        await self.look(stack, plan["id"])
        instances = []
        for server in servers:
            if until.is_set() or self.random.random() < 0.4:
                continue
            instance = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
            await self.rest()
            if await self.reserve(stack, server, instance, plan["placements"][server]):
                await self.rest()
                await self.arrive(stack, server, instance, plan["placements"][server])
                instances.append(instance)
            await self.look(stack, plan["id"])
        await self.rest()
        # An instance that outlives its plan would be a stranger where its group keeps to itself.
        for instance in instances:
            if not await self.leave(stack, instance):
                return
        await self.delete(stack)
        await self.look(stack, plan["id"])

    async def create(self, stack: str, servers: list[str], group: str | None):
        resources = {
            server: {
                "type": "OS::Nova::Server", "name": server[-1],
                "properties": {"resources": AMOUNTS},
            } for server in servers
        }  # fmt: skip
        if group is not None:
            resources["alone"] = {
                "type": "OS::Valet::GroupAssignment",
                "properties": {"group": group, "resources": list(servers)},
            }
        elif len(servers) > 1 and self.random.random() < 0.5:
            resources["apart"] = {
                "type": "OS::Valet::GroupAssignment",
                "properties": {"group_type": "diversity", "level": "host", "resources": list(servers)},
            }
        body = {
            "plan_name": stack, "stack_id": stack, "resources": resources,
            "timeout": "2 sec", "locations": list(self.world.planned),
        }  # fmt: skip
        request = {"stack": stack, "servers": servers, "group": group, "apart": "apart" in resources}
        return await self.caller.do(
            "plan-create", self.replica, "POST", "/v1/plans", request, body, read_plan, planner=True
        )

    async def look(self, stack: str, plan: str) -> None:
        """Read the plan, its placements and what they hold, at any replica."""
        request = {"stack": stack, "plan": plan}
        by = self.random.choice([stack, plan])
        seen = await self.caller.do(
            "plan-read", self.random.choice(self._names), "GET", f"/v1/plans/{by}", request,
            read=read_plan, planner=True,
        )  # fmt: skip
        if seen.outcome != OK:
            return
        server = self.random.choice(list(seen.response["plan"]["placements"]))
        request = {"stack": stack, "plan": plan, "server": server}
        one = await self.caller.do(
            "placement-read", self.random.choice(self._names), "GET", f"/v1/placements/{server}",
            request, read=read_placement, planner=True,
        )  # fmt: skip
        if one.outcome == OK:
            placement = one.response["placement"]["id"]
            await self.caller.do(
                "hold-read", self.random.choice(self._names), "GET", f"/allocations/{placement}",
                {**request, "placement": placement},
                read=lambda answer: {"state": consumer_view(answer.json())},
            )  # fmt: skip

    async def reserve(self, stack: str, server: str, instance: str, location: str) -> bool:
        request = {"stack": stack, "server": server, "instance": instance}
        body = {"resource_id": instance, "locations": [location]}
        done = await self.caller.do(
            "reserve", self.replica, "POST", f"/v1/placements/{server}", request, body, read_placement,
            planner=True,
        )  # fmt: skip
        return done.outcome == OK

    async def arrive(self, stack: str, server: str, instance: str, location: str) -> None:
        """What nova does for the instance: a claim on the host."""
        wanted = {self.world.planned[location]: AMOUNTS}
        request = {
            "stack": stack, "server": server, "instance": instance,
            "writes": {instance: {"guard": None, "allocations": wanted}},
        }  # fmt: skip
        for _ in range(3):
            done = await self.caller.do(
                "arrive", self.replica, "PUT", f"/allocations/{instance}", request,
                lambda operation: {
                    "allocations": {provider: {"resources": amounts} for provider, amounts in wanted.items()},
                    "project_id": self.caller.project, "user_id": operation.tag,
                    "consumer_generation": None, "consumer_type": "INSTANCE",
                },
            )  # fmt: skip
            if done.outcome != UNREACHED:
                return
            await self.rest()

    async def leave(self, stack: str, instance: str) -> bool:
        request = {"stack": stack, "instance": instance, "writes": {instance: {"guard": "delete", "allocations": {}}}}
        return await self.again("leave", f"/allocations/{instance}", request, planner=False)

    async def delete(self, stack: str) -> None:
        await self.again("plan-delete", f"/v1/plans/{stack}", {"stack": stack}, planner=True)

    async def again(self, kind: str, path: str, request: dict, planner: bool) -> bool:
        """Delete, until it is known to be gone or five times have failed."""
        for _ in range(5):
            done = await self.caller.do(kind, self.replica, "DELETE", path, request, planner=planner)
            if done.outcome in (OK, REFUSED):
                return True
            await asyncio.sleep(1)
        return False


def read_plan(answer) -> dict:
    plan = answer.json()
    placements = {server: of["location"] for server, of in plan["placements"].items()}
    return {"plan": {"id": plan["id"], "placements": placements}}


def read_placement(answer) -> dict:
    seen = answer.json()
    return {"placement": {
        "id": seen["id"], "plan": seen["plan_id"], "location": seen["location"],
        "reserved": seen["reserved"], "resource": seen.get("resource_id"),
    }}  # fmt: skip

