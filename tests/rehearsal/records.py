"""What a service stores, read over its API; and what it must store by the journals of clients."""

import dataclasses
import json
import pathlib

from everything import Everything
from journal import DEADLOCK

# Statuses that services get in a day's work: something is not there yet, or another was faster.
ORDINARY = (404, 409)
# With this the old service answers 500 instead of 409; nova-compute tries again in its next period.
OVERTAKEN = "Another thread concurrently updated the resource provider data"
CANDIDATES = (
    "resources=VCPU:1,MEMORY_MB:512,DISK_GB:5",
    "resources=VCPU:1&resources_gpu=VGPU:1&required_gpu=CUSTOM_GPU&group_policy=none",
    "resources=NET_BW_EGR_KILOBIT_PER_SEC:1000&required=CUSTOM_PHYSNET_0",
    "resources=VCPU:2&required=CUSTOM_WARM",
)


def stored(url: str, token: str) -> dict[str, dict]:
    """All that a service stores."""
    return Everything([url], token).tables(queries=CANDIDATES)


@dataclasses.dataclass
class Journals:
    """The journals of all services."""

    lines: list[dict]

    @classmethod
    def read(cls, files: list[pathlib.Path]) -> "Journals":
        # The last line may be half written.
        lines = [json.loads(line) for file in files for line in file.read_text().split("\n")[:-1]]
        return cls(sorted(lines, key=lambda it: it["at"]))

    def operations(self) -> dict[str, int]:
        """How many operations each thread has done."""
        counts: dict[str, int] = {}
        for it in self.lines:
            # The main threads only ask for the version.
            if ": " in it["thread"]:
                counts[it["thread"]] = counts.get(it["thread"], 0) + ("operation" in it)
        return counts

    def by_kind(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for it in self.lines:
            if "operation" in it:
                counts[it["operation"]] = counts.get(it["operation"], 0) + 1
        return counts

    def consumers(self) -> dict:
        """The allocations of each consumer that has some."""
        held = {}
        for it in self.lines:
            held |= it.get("consumers", {})
        return {consumer: allocations for consumer, allocations in held.items() if allocations}

    def providers(self) -> dict:
        """Inventories and traits of each provider that there is."""
        known = {}
        for it in self.lines:
            known |= it.get("providers", {})
        return {provider: what for provider, what in known.items() if what is not None}

    def requests(self) -> list[dict]:
        return [it for it in self.lines if "path" in it]

    def errors(self) -> list[str]:
        """What no client may see: operations that fail, connections that break, answers that are no answers."""
        found = [it["error"] for it in self.lines if "error" in it]
        for it in self.requests():
            # Nothing but the old service says either.
            of_old = it["status"] == 500 and (OVERTAKEN in it["reason"] or DEADLOCK in it["reason"])
            if not (200 <= it["status"] < 300 or it["status"] in ORDINARY or of_old):
                found.append(f"{it['method']} {it['path']}: {it['status']} {it['reason']}")
        return found

    def longest(self) -> dict:
        """The request that took longest."""
        return max(self.requests(), key=lambda it: it["seconds"])
