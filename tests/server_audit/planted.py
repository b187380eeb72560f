"""A cloud in which each situation is planted once, beside servers that are in order.

The numbers of what is planted are the last digits of UUIDs.
"""

import collections

HEALTHY = range(1000, 1040)
HOSTS = ["node-1.example", "node-2.example", "node-3.example", "node-4.example"]
CHILD, SHARING, FOREIGN = 50, 51, 62
PLAIN = {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 10}

ARCHIVED = 14
BUSY, RESIZED, RESIZING, PLAN, RESERVED, LOST = 20, 21, 121, 22, 23, 13

# What `berth heal` sets right.
HEALED = {
    "orphan": [1, ARCHIVED, 102, 103],
    "deleted-server": [2],
    "several-hosts": [4, 5, 7],
    "without-host": [8],
    "no-allocations": [9],
    "wrong-amounts": [10],
    "wrong-owner": [11],
}
# What a person decides.
DECIDED = {"wrong-host": [12]}


def uuid(number: int) -> str:
    return f"0000000a-0000-4000-8000-{number:012d}"


def host(number: int) -> str:
    """The UUID of a host, from 1."""
    return uuid(number)[:-6] + f"9{number:05d}"


class Cloud:
    """nova's servers, and the service's side as allocations by consumer."""

    def __init__(self) -> None:
        self.servers: list[dict] = []
        self.held: dict[str, dict] = collections.defaultdict(dict)
        self.types: dict[str, str] = {}

    def server(self, number: int, on: int | None, holds: list[int], **more) -> None:
        name = HOSTS[on - 1] if on else None
        self.servers.append({"uuid": uuid(number), "node": name, **more})
        self.holds(number, holds)

    def holds(self, number: int, hosts: list[int], resources: dict = PLAIN) -> None:
        for nth in hosts:
            self.held[uuid(number)][host(nth)] = resources


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
    # Consumers without a server: one that no list has, a deleted one, and migrations that have ended.
    cloud.holds(1, [1, 2])
    cloud.server(2, 1, [1], deleted=True)
    cloud.holds(ARCHIVED, [1])
    cloud.holds(102, [1])
    cloud.holds(103, [1])
    # Servers.
    cloud.server(4, 2, [1, 2])
    cloud.server(5, 2, [1, 2])
    cloud.server(7, 3, [3, 4])
    cloud.server(8, None, [1], vm_state="shelved_offloaded")
    cloud.server(9, 3, [])
    cloud.server(10, 3, [3])
    cloud.held[uuid(10)][host(3)] = {**PLAIN, "VCPU": 4}
    cloud.server(11, 4, [4], project="project-2")
    cloud.server(12, 3, [4])
    # What is to be left alone.
    cloud.server(LOST, None, [4])
    cloud.servers[-1]["node"] = "lost.example"
    cloud.server(BUSY, 1, [1, 2], task_state="migrating")
    cloud.server(RESIZED, 2, [2], vm_state="resized")
    cloud.holds(RESIZING, [1])
    cloud.holds(PLAN, [1])
    cloud.types[uuid(PLAN)] = "VALET_PLAN"
    cloud.holds(RESERVED, [1], {"CUSTOM_RESERVATION": 1})
    return cloud
