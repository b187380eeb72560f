"""The providers, consumers and groups that one run works on, all of them new."""

import random
import uuid

from api import Caller
from history import OK

CLASSES = {"VCPU": 16, "MEMORY_MB": 65536}
TRAITS = 8


class World:
    """Names and sizes; `build` makes them at a server."""

    def __init__(self, random_: random.Random, hosts: int, consumers: int) -> None:
        new = lambda: str(uuid.UUID(int=random_.getrandbits(128), version=4))  # noqa: E731
        self.mark = f"{random_.getrandbits(32):08X}"
        # Ordinary claims are made on these, and their generations are counted.
        self.hosts = [new() for _ in range(hosts)]
        # The planner plans on these, and ordinary claims try to get in between.
        self.planned = {f"plan-{self.mark}-{number}": new() for number in range(6)}
        self.names = {uuid_: name for name, uuid_ in self.planned.items()}
        self.consumers = [new() for _ in range(consumers)]
        self.projects = [new().replace("-", "") for _ in range(3)]
        self.traits = [f"CUSTOM_CHAOS_{self.mark}_{number}" for number in range(TRAITS)]
        self.groups: dict[str, str] = {}
        # What each provider's generation was when all was made.
        self.generations: dict[str, int] = {}

    @property
    def providers(self) -> list[str]:
        return [*self.hosts, *self.planned.values()]

    async def build(self, caller: Caller, replica: str) -> None:
        """Create it all. Raises RuntimeError if anything is refused."""

        async def must(method, path, body=None, **more):
            operation = await caller.do("build", replica, method, path, {}, body, **more)
            if operation.outcome != OK:
                raise RuntimeError(f"{method} {path}: {operation.words()}")
            return operation.response

        racks = [f"CUSTOM_RACK_CHAOS{self.mark}{number}" for number in range(3)]
        for trait in [*self.traits, *racks]:
            await must("PUT", f"/traits/{trait}")
        names = {uuid_: f"host-{self.mark}-{number}" for number, uuid_ in enumerate(self.hosts)}
        for number, (provider, name) in enumerate({**names, **self.names}.items()):
            await must("POST", "/resource_providers", {"uuid": provider, "name": name})
            inventories = {name: inventory(total, 0) for name, total in CLASSES.items()}
            body = {"resource_provider_generation": 0, "inventories": inventories}
            seen = await must(
                "PUT", f"/resource_providers/{provider}/inventories", body,
                read=lambda answer: answer.json(),
            )  # fmt: skip
            generation = seen["resource_provider_generation"]
            if provider in self.names:
                body = {"resource_provider_generation": generation, "traits": [racks[number % 3]]}
                await must("PUT", f"/resource_providers/{provider}/traits", body)
            self.generations[provider] = generation
        for kind in ("gold", "silver"):
            name = f"{kind}-{self.mark}"
            body = {"name": name, "type": "exclusivity", "level": "host"}
            made = await must(
                "POST", "/v1/groups", body, planner=True, read=lambda answer: answer.json()
            )  # fmt: skip
            self.groups[name] = made["id"]
            members = {"members": self.projects}
            await must("PUT", f"/v1/groups/{name}/members", members, planner=True)


def inventory(total: int, mark: int) -> dict:
    """An inventory that tells by `max_unit` which write made it."""
    return {"total": total, "max_unit": MARKED + mark}


# Larger than any amount, so that the mark rules nothing out.
MARKED = 1_000_000
