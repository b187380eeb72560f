"""The instances: clouds that are partly used, and stacks to place on them, made from fixed seeds.

docs/benchmarks.md says what is drawn from which trace.
"""

import dataclasses
import functools
import random

# The sizes in Azure's public trace of 2017: VCPU and memory in GB as the trace has them, local disk in
# GB as Azure documents it for these sizes, and the share of each among the machines of the trace.
FLAVORS = {
    "a": (1, 0.75, 20, 0.0232),
    "b": (1, 1.75, 70, 0.4265),
    "g": (2, 3.5, 135, 0.2782),
    "k": (4, 7, 285, 0.1131),
    "m": (8, 14, 605, 0.1118),
    "o": (8, 56, 605, 0.0462),
    "c": (1, 2, 20, 0.0004),
    "i": (4, 28, 285, 0.0002),
    "d": (16, 112, 800, 0.0001),
    "e": (2, 14, 135, 0.0001),
}
# Deployments of 10 to 200 machines are equal in this: the average share of each size in them, the
# number of different sizes, and that a machine is of the size of the one before it.
STACK_SHARES = {"a": 31, "b": 2686, "c": 4, "d": 1, "g": 3393, "i": 1, "k": 1181, "m": 1648, "o": 1054}
TIER_SIZES = {1: 0.5904, 2: 0.2519, 3: 0.1470, 4: 0.0106}
# Sizes of deployments in the trace, up to those of a tier.
TIERS = {2: 1808, 3: 533, 4: 532, 5: 200, 6: 180, 8: 340, 10: 150, 12: 130, 16: 126, 24: 120, 40: 95}

# Three generations of hosts: VCPU, memory in GB, disk in GB.
GENERATIONS = ((32, 224, 4_000), (48, 384, 6_000), (64, 512, 8_000))
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")


@dataclasses.dataclass
class Pool:
    """An inventory: the provider, by number, and its class."""

    provider: int
    name: str
    total: int
    used: int = 0

    @property
    def free(self) -> int:
        return self.total - self.used


@dataclasses.dataclass
class Provider:
    name: str
    parent: int | None
    root: int
    aggregates: list[int] = dataclasses.field(default_factory=list)
    traits: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Host:
    """A host: which pools can supply each class, and which of them are its own."""

    name: str
    rack: int
    root: int
    pools: dict[str, list[int]]
    own: set[int]
    in_use: bool = False


@dataclasses.dataclass
class Group:
    """A group of servers, by their numbers."""

    kind: str
    level: str
    servers: list[int]
    # Of diversity: the servers that a unit may have, or else the largest difference between units.
    most: int = 1
    skew: int | None = None

    @property
    def is_apart(self) -> bool:
        """Whether each server has a unit of its own."""
        return self.kind == "diversity" and self.most == 1 and self.skew is None


@dataclasses.dataclass
class Instance:
    """A cloud and a stack."""

    name: str
    shape: str
    providers: list[Provider]
    pools: list[Pool]
    hosts: list[Host]
    # For each server its flavor.
    servers: list[str]
    groups: list[Group]
    classes: tuple[str, ...] = CLASSES

    @functools.cached_property
    def needs(self) -> dict[str, dict[str, int]]:
        """What each flavor of the stack needs."""
        return {flavor: needs(flavor) for flavor in sorted(set(self.servers))}

    def own_free(self, host: int, name: str) -> int:
        """What is free of a class on the host's own providers."""
        it = self.hosts[host]
        return sum(self.pools[pool].free for pool in it.pools.get(name, ()) if pool in it.own)

    def fits(self, host: int, flavor: str) -> bool:
        """Whether one server of a flavor fits on a host."""
        pools = self.hosts[host].pools
        return all(
            any(self.pools[pool].free >= amount for pool in pools.get(name, ()))
            for name, amount in self.needs[flavor].items()
        )

    def domains(self, group: Group) -> set[int]:
        """The racks over which a group is distributed evenly: those in which one of its servers fits."""
        flavors = {self.servers[server] for server in group.servers}
        return {host.rack for h, host in enumerate(self.hosts) if any(self.fits(h, it) for it in flavors)}

    @functools.cached_property
    def _candidates(self) -> set[int]:
        return {h for h in range(len(self.hosts)) if any(self.fits(h, flavor) for flavor in self.needs)}

    def is_candidate(self, host: int) -> bool:
        """Whether some server of the stack fits on a host."""
        return host in self._candidates


def needs(flavor: str) -> dict[str, int]:
    """The amounts that a flavor requests."""
    vcpu, memory, disk, _ = FLAVORS[flavor]
    return {"VCPU": vcpu, "MEMORY_MB": int(memory * 1024), "DISK_GB": disk}


# Stacks for each size of cloud: servers, how much of the cloud is used, what its hosts are like, and
# which groups the stack has.
STACKS = (
    (10, 0.75, "flat", "apart"),
    (20, 0.75, "flat", "apart close"),
    (30, 0.85, "flat", "apart racks"),
    (50, 0.75, "flat", "apart close racks"),
    (50, 0.65, "flat", "apart close alone"),
    (75, 0.75, "numa", "apart close racks"),
    (100, 0.65, "flat", "apart close racks"),
    (100, 0.65, "shared", "apart close near"),
    (150, 0.70, "numa", "apart close near alone"),
    (200, 0.60, "flat", "apart close racks near alone"),
)
CLOUDS = {100: 20, 2_000: 40, 10_000: 40}
# The groups of tiers, in turn: two in five tiers are apart, three servers of a tier in different racks, and so on.
ROLES = ("apart", "close", "apart", "racks", "near", "alone")

# The same for stacks whose rules are about racks: even distributions, and limits for each rack.
RACK_STACKS = (
    (30, 0.75, "flat", "skew"),
    (60, 0.70, "flat", "skew limit"),
    (100, 0.70, "numa", "skew limit apart"),
    (200, 0.65, "flat", "skew limit apart close"),
    (300, 0.60, "numa", "skew limit apart close"),
)
RACK_CLOUDS = {500: 20, 2_000: 40, 5_000: 40}
RACK_ROLES = ("skew", "limit", "apart", "skew", "limit", "close")

# By the suffix of the clouds' names.
SETS = {"": (CLOUDS, STACKS, ROLES), "r": (RACK_CLOUDS, RACK_STACKS, RACK_ROLES)}


def names() -> list[str]:
    """The names of all instances."""
    return [
        f"{hosts}{suffix}-{nth}"
        for suffix, (clouds, stacks, _) in SETS.items()
        for hosts in clouds
        for nth in range(1, len(stacks) + 1)
    ]


def make(name: str) -> Instance:
    """An instance, always the same."""
    cloud, nth = name.split("-")
    clouds, stacks, roles = SETS["r" if cloud.endswith("r") else ""]
    hosts = int(cloud.removesuffix("r"))
    servers, used, shape, kinds = stacks[int(nth) - 1]
    random_ = random.Random(f"berth {name}")
    instance = Instance(name, shape, [], [], [], [], [])
    _cloud(instance, hosts, clouds[hosts], shape)
    _fill(instance, used, random_)
    _stack(instance, servers, [role if role in kinds.split() else None for role in roles], random_)
    return instance


def _cloud(instance: Instance, hosts: int, to_rack: int, shape: str) -> None:
    racks = hosts // to_rack
    storages = {}
    if shape == "shared":
        for rack in range(racks):
            number = len(instance.providers)
            traits = ["MISC_SHARES_VIA_AGGREGATE"]
            instance.providers.append(Provider(f"storage-{rack:03}", None, number, [rack], traits))
            storages[rack] = _pool(instance, number, "DISK_GB", to_rack * 4_000)
    for nth in range(hosts):
        rack = nth // to_rack
        # A rack has hosts of one generation.
        vcpu, memory, disk = GENERATIONS[rack % len(GENERATIONS)]
        root = len(instance.providers)
        name = f"host-{nth:05}"
        aggregates = [rack] if shape == "shared" else []
        instance.providers.append(Provider(name, None, root, aggregates, [f"CUSTOM_RACK_R{rack:03}"]))
        pools: dict[str, list[int]] = {}
        compute = [root]
        if shape == "numa":
            compute = []
            for node in range(2):
                compute.append(len(instance.providers))
                instance.providers.append(Provider(f"{name}-node-{node}", root, root))
        own = set()
        for provider in compute:
            for class_, total in (("VCPU", vcpu), ("MEMORY_MB", memory * 1024)):
                pool = _pool(instance, provider, class_, total // len(compute))
                pools.setdefault(class_, []).append(pool)
                own.add(pool)
        if rack in storages:
            pools["DISK_GB"] = [storages[rack]]
        else:
            pools["DISK_GB"] = [_pool(instance, root, "DISK_GB", disk)]
            own.update(pools["DISK_GB"])
        instance.hosts.append(Host(name, rack, root, pools, own))


def _pool(instance: Instance, provider: int, name: str, total: int) -> int:
    instance.pools.append(Pool(provider, name, total))
    return len(instance.pools) - 1


def _fill(instance: Instance, used: float, random_: random.Random) -> None:
    """Servers that run already: some hosts have none, most are rather full."""
    flavors, weights = list(FLAVORS), [it[3] for it in FLAVORS.values()]
    for host in instance.hosts:
        if random_.random() < (1 - used) / 2:
            continue
        target = min(1.0, random_.triangular(used - 0.35, 1.15, used + 0.15))
        vcpus = [instance.pools[pool] for pool in host.pools["VCPU"]]
        most = target * sum(pool.total for pool in vcpus)
        misses = 0
        while misses < 3 and sum(pool.used for pool in vcpus) < most:
            taken = _take(instance, host, needs(random_.choices(flavors, weights)[0]))
            misses += not taken
            host.in_use |= taken


def _take(instance: Instance, host: Host, amounts: dict[str, int]) -> bool:
    """Puts a server on a host, if it fits."""
    chosen = []
    for name, amount in amounts.items():
        pools = [instance.pools[pool] for pool in host.pools[name]]
        pool = min((pool for pool in pools if pool.free >= amount), key=lambda it: it.free, default=None)
        if pool is None:
            return False
        chosen.append((pool, amount))
    for pool, amount in chosen:
        pool.used += amount
    return True


def _stack(instance: Instance, servers: int, roles: list[str | None], random_: random.Random) -> None:
    """Tiers as deployments of the trace, with groups as a stack's author would set them."""
    tiers = []
    while len(instance.servers) < servers:
        count = random_.choices(list(TIERS), list(TIERS.values()))[0]
        count = min(count, servers - len(instance.servers), max(2, servers // 4))
        sizes = random_.choices(list(TIER_SIZES), list(TIER_SIZES.values()))[0]
        flavors = random_.choices(list(STACK_SHARES), list(STACK_SHARES.values()), k=sizes)
        first = len(instance.servers)
        instance.servers += sorted(random_.choice(flavors) for _ in range(count))
        tiers.append(list(range(first, first + count)))
    random_.shuffle(tiers)
    for nth, tier in enumerate(tiers):
        role = roles[nth % len(roles)]
        if role is None or len(tier) < 2:
            continue
        if role == "apart":
            instance.groups.append(Group("diversity", "host", tier))
        elif role == "close":
            instance.groups.append(Group("affinity", "host", tier[:3]))
        elif role == "racks":
            instance.groups.append(Group("diversity", "rack", tier[:3]))
        elif role == "skew":
            instance.groups.append(Group("diversity", "rack", tier, skew=1))
        elif role == "limit":
            instance.groups.append(Group("diversity", "rack", tier, most=max(2, len(tier) // 8)))
        elif role == "near":
            instance.groups.append(Group("affinity", "rack", tier))
        else:
            instance.groups.append(Group("exclusivity", "host", tier[:4]))
