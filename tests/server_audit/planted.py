"""A cloud in which each situation is planted once, beside servers that are in order.

The numbers of what is planted are the last digits of UUIDs.
"""

import collections

HEALTHY = range(1000, 1040)
HOSTS = ["node-1.example", "node-2.example", "node-3.example", "node-4.example"]
CHILD, SHARING, GONE, REPLACED, FOREIGN = 50, 51, 60, 61, 62
PLAIN = {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 10}

# What `berth heal` sets right.
HEALED = {
    "orphan": 1,
    "deleted-server": 2,
    "ended-migration": 102,
    "unreverted-migration": 3,
    "left-by-evacuation": 4,
    "left-by-resize": 5,
    "left-by-live-migration": 6,
    "several-hosts": 7,
    "without-host": 8,
    "no-allocations": 9,
    "wrong-amounts": 10,
    "wrong-owner": 11,
    "provider-without-node": GONE,
}
# What a person decides.
DECIDED = {
    "wrong-host": 12,
    "host-without-node": 13,
    "provider-of-replaced-node": REPLACED,
    "node-without-provider": 70,
    "node-without-service": 80,
}
ARCHIVED = 14
BUSY, RESIZED, RESIZING, PLAN, RESERVED = 20, 21, 121, 22, 23


def uuid(number: int) -> str:
    return f"0000000a-0000-4000-8000-{number:012d}"


def host(number: int) -> str:
    """The UUID of a host, from 1."""
    return uuid(number)[:-6] + f"9{number:05d}"


class Cloud:
    """nova's side as nova_side.py takes it, and the service's side as allocations by consumer."""

    def __init__(self) -> None:
        self.nodes = [{"uuid": host(nth + 1), "name": name} for nth, name in enumerate(HOSTS)]
        self.servers: list[dict] = []
        self.migrations: list[dict] = []
        self.held: dict[str, dict] = collections.defaultdict(dict)
        self.types: dict[str, str] = {}

    def server(self, number: int, on: int | None, holds: list[int], **more) -> None:
        name = HOSTS[on - 1] if on else None
        self.servers.append({"uuid": uuid(number), "node": name, **more})
        self.holds(number, holds)

    def holds(self, number: int, hosts: list[int], resources: dict = PLAIN) -> None:
        for nth in hosts:
            self.held[uuid(number)][host(nth)] = resources

    def migration(self, number: int, server: int, kind: str, status: str) -> None:
        self.migrations.append({
            "uuid": uuid(number), "server": uuid(server), "kind": kind, "status": status,
            "source": HOSTS[0], "target": HOSTS[1],
        })  # fmt: skip

    def as_json(self) -> dict:
        return {"nodes": self.nodes, "servers": self.servers, "migrations": self.migrations}


def in_order() -> Cloud:
    """Servers that hold what they should, some of it elsewhere than on the host's own provider."""
    cloud = Cloud()
    for nth, number in enumerate(HEALTHY):
        cloud.server(number, nth % 4 + 1, [nth % 4 + 1])
    first = cloud.held[uuid(HEALTHY[0])]
    first[uuid(CHILD)] = {"NET_BW_EGR_KILOBIT_PER_SEC": 100}
    second = cloud.held[uuid(HEALTHY[1])]
    second[host(2)] = {"VCPU": 2, "MEMORY_MB": 512}
    second[uuid(SHARING)] = {"DISK_GB": 10}
    # Its root disk is a volume.
    cloud.server(HEALTHY[-1] + 1, 3, [], volume=True)
    cloud.holds(HEALTHY[-1] + 1, [3], {"VCPU": 2, "MEMORY_MB": 512})
    return cloud


def planted() -> Cloud:
    cloud = in_order()
    # Consumers without a server.
    cloud.holds(1, [1, 2])
    cloud.server(2, 1, [1], deleted=True)
    cloud.server(ARCHIVED, 1, [1], deleted=True, archived=True)
    # Migrations.
    cloud.server(1050, 2, [2])
    cloud.migration(102, 1050, "migration", "confirmed")
    cloud.holds(102, [1])
    cloud.server(3, 1, [2])
    cloud.migration(103, 3, "migration", "error")
    cloud.holds(103, [1])
    for number, kind, status in [
        (4, "evacuation", "done"), (5, "resize", "confirmed"), (6, "live-migration", "completed"),
    ]:  # fmt: skip
        cloud.server(number, 2, [1, 2])
        cloud.migration(100 + number, number, kind, status)
    cloud.server(7, 3, [3, 4])
    # Servers.
    cloud.server(8, None, [1], vm_state="shelved_offloaded")
    cloud.server(9, 3, [])
    cloud.server(10, 3, [3])
    cloud.held[uuid(10)][host(3)] = {**PLAIN, "VCPU": 4}
    cloud.server(11, 4, [4], project="project-2")
    cloud.server(12, 3, [4])
    cloud.server(13, None, [4])
    cloud.servers[-1]["node"] = "lost.example"
    # Hosts.
    cloud.nodes += [
        {"uuid": uuid(GONE), "name": "gone.example", "deleted": True, "service": False},
        {"uuid": uuid(71), "name": "replaced.example"},
        {"uuid": uuid(70), "name": "new.example"},
        {"uuid": uuid(80), "name": "unserved.example", "service": False},
    ]
    # What is to be left alone.
    cloud.server(BUSY, 1, [1, 2], task_state="migrating")
    cloud.server(RESIZED, 2, [2], vm_state="resized")
    cloud.migration(RESIZING, RESIZED, "resize", "finished")
    cloud.holds(RESIZING, [1])
    cloud.holds(PLAN, [1])
    cloud.types[uuid(PLAN)] = "VALET_PLAN"
    cloud.holds(RESERVED, [1], {"CUSTOM_RESERVATION": 1})
    return cloud
