"""What exists on both servers, and choices from it.

Every choice comes from one random number generator, so that a seed names a
sequence of requests.
"""

import dataclasses
import random
import uuid

CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB", "VGPU"]
CUSTOM_CLASSES = ["CUSTOM_GOLD", "CUSTOM_IRON", "CUSTOM_TIN"]
NO_CLASSES = ["CUSTOM_ABSENT", "CHOCOLATE", "vcpu", "CUSTOM_", ""]
TRAITS = ["HW_CPU_X86_AVX", "STORAGE_DISK_SSD", "COMPUTE_NODE", "MISC_SHARES_VIA_AGGREGATE"]
CUSTOM_TRAITS = ["CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_ROUND"]
NO_TRAITS = ["CUSTOM_NOWHERE", "HW_CPU", "custom_red", "CUSTOM_", ""]
TYPES = ["INSTANCE", "MIGRATION", "TYPE_3"]
OWNERS = ["alpha", "beta", "gamma"]
PROVIDERS_MAX = 12


@dataclasses.dataclass
class Provider:
    uuid: str
    name: str
    parent: str | None


class Cloud:
    """The things both servers hold. `generations` asks them, see suite.py."""

    def __init__(self, rng: random.Random, generations) -> None:
        self.rng = rng
        self._generations = generations
        self.providers: dict[str, Provider] = {}
        self.named = 0
        self.aggregates = [self.new_uuid() for _ in range(4)]
        self.consumers = [self.new_uuid() for _ in range(8)]

    def chance(self, likely: float) -> bool:
        return self.rng.random() < likely

    def pick(self, things):
        return self.rng.choice(list(things))

    def some(self, things, least: int = 0, most: int = 4) -> list:
        things = list(things)
        most = min(most, len(things))
        return self.rng.sample(things, self.rng.randint(min(least, most), most))

    def new_uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def spelt(self, uuid: str) -> str:
        """The same UUID of an aggregate, rarely spelt otherwise than usual.

        Those of providers and of consumers that exist are not: for the reference, other spellings are
        others (see docs/differences.md).
        """
        if self.chance(0.98):
            return uuid
        bare = uuid.replace("-", "")
        return self.pick([bare, bare.upper(), uuid.upper(), f"{{{uuid}}}", f"urn:uuid:{uuid}"])

    def with_dashes_elsewhere(self, uuid: str) -> str:
        """The same UUID, with its four dashes in other places."""
        digits = list(uuid.replace("-", ""))
        for _ in range(4):
            digits.insert(self.rng.randint(0, len(digits)), "-")
        return "".join(digits)

    def new_consumer(self) -> str:
        """A consumer that nobody has named yet, in some spelling that fits a key."""
        uuid = self.new_uuid()
        return self.pick([uuid, uuid.upper(), self.with_dashes_elsewhere(uuid)])

    def new_name(self) -> str:
        self.named += 1
        return f"provider {self.named}"

    def any_provider(self) -> str:
        """Mostly one that exists."""
        if self.providers and self.chance(0.96):
            return self.pick(self.providers)
        return self.pick([self.new_uuid(), "not-a-uuid", self.new_uuid().replace("-", "")])

    def any_class(self) -> str:
        many = CLASSES * 6 + CUSTOM_CLASSES * 4
        return self.pick(many if self.chance(0.97) else NO_CLASSES)

    def any_trait(self) -> str:
        many = TRAITS * 3 + CUSTOM_TRAITS * 3
        return self.pick(many if self.chance(0.97) else NO_TRAITS)

    def any_aggregate(self) -> str:
        return self.spelt(self.pick(self.aggregates) if self.chance(0.95) else self.new_uuid())

    def any_consumer(self) -> str:
        if self.chance(0.97):
            return self.pick(self.consumers)
        return self.pick([self.new_consumer(), self.new_uuid().replace("-", "")])

    def provider_generation(self, provider: str) -> int:
        """Mostly the right one."""
        right = self._generations.of_provider(provider)
        return right if self.chance(0.95) else right + self.pick([-1, 1, 7])

    def consumer_generation(self, consumer: str) -> int | None:
        """Mostly the right one."""
        right = self._generations.of_consumer(consumer)
        if self.chance(0.95):
            return right
        return self.pick([None, 0, 1, (right or 0) + 1])
