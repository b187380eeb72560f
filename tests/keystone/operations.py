"""Every operation of the Placement API, by whom it may be done.

The requests are such that an answer to someone who may is neither 401 nor 403,
and that asking twice does no harm: mostly for things that do not exist.
"""

import dataclasses
import enum

from people import Kind

ABSENT = "6c1bf5d0-1f4c-4b0d-9a3a-0c4b8f1e0000"
IN_PATH = {
    "uuid": ABSENT,
    "consumer_uuid": ABSENT,
    "resource_class": "VCPU",
}


class Rule(enum.Enum):
    """Who may, in the words of the reference's base rules."""

    ADMIN_OR_SERVICE = enum.auto()
    ADMIN_OR_PROJECT_READER_OR_SERVICE = enum.auto()
    SERVICE = enum.auto()
    # No rule: whoever has a valid token.
    KNOWN = enum.auto()
    # No token needed.
    ANYONE = enum.auto()


PRESENT = {
    Rule.ADMIN_OR_SERVICE: {Kind.ADMIN, Kind.SERVICE},
    Rule.ADMIN_OR_PROJECT_READER_OR_SERVICE: {Kind.ADMIN, Kind.SERVICE, Kind.READER},
    Rule.SERVICE: {Kind.SERVICE},
    Rule.KNOWN: set(Kind) - {Kind.STRANGER},
    Rule.ANYONE: set(Kind),
}
# Before the present defaults, administrators could do everything. Those hold as well.
BEFORE = {rule: kinds | {Kind.ADMIN} for rule, kinds in PRESENT.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """A request, and the rule it stands under."""

    method: str
    # With the parts that vary in braces, as in the reference's list of rules.
    path: str
    rule: Rule
    body: object = None
    query: str = ""
    # What stands for `{name}`.
    named: str = ""

    def target(self) -> str:
        """What is asked for."""
        return self.path.format(**IN_PATH, name=self.named) + self.query

    def allows(self, kind: Kind, new_defaults: bool) -> bool:
        return kind in (PRESENT if new_defaults else BEFORE)[self.rule]


INVENTORY = {"total": 8, "resource_provider_generation": 0}
PROVIDER = "/resource_providers/{uuid}"
STAFF = Rule.ADMIN_OR_SERVICE


def operations(project: str, another: str) -> list[Operation]:
    """All of them. Usages are asked for of the readers' project, and of another."""
    usages = Rule.ADMIN_OR_PROJECT_READER_OR_SERVICE
    return [
        Operation("GET", "/", Rule.ANYONE),
        Operation("GET", "/resource_providers", STAFF),
        Operation("POST", "/resource_providers", STAFF, {}),
        Operation("GET", PROVIDER, STAFF),
        Operation("PUT", PROVIDER, STAFF, {"name": "renamed"}),
        Operation("DELETE", PROVIDER, STAFF),
        Operation("GET", f"{PROVIDER}/inventories", STAFF),
        Operation("POST", f"{PROVIDER}/inventories", STAFF, INVENTORY | {"resource_class": "VCPU"}),
        Operation("PUT", f"{PROVIDER}/inventories", STAFF,
                  {"inventories": {}, "resource_provider_generation": 0}),
        Operation("DELETE", f"{PROVIDER}/inventories", STAFF),
        Operation("GET", f"{PROVIDER}/inventories/{{resource_class}}", STAFF),
        Operation("PUT", f"{PROVIDER}/inventories/{{resource_class}}", STAFF, INVENTORY),
        Operation("DELETE", f"{PROVIDER}/inventories/{{resource_class}}", STAFF),
        Operation("GET", f"{PROVIDER}/aggregates", STAFF),
        Operation("PUT", f"{PROVIDER}/aggregates", STAFF,
                  {"aggregates": [], "resource_provider_generation": 0}),
        Operation("GET", f"{PROVIDER}/traits", STAFF),
        Operation("PUT", f"{PROVIDER}/traits", STAFF,
                  {"traits": [], "resource_provider_generation": 0}),
        Operation("DELETE", f"{PROVIDER}/traits", STAFF),
        Operation("GET", f"{PROVIDER}/usages", STAFF),
        Operation("GET", f"{PROVIDER}/allocations", STAFF),
        Operation("GET", "/resource_classes", STAFF),
        Operation("POST", "/resource_classes", STAFF, {}),
        Operation("GET", "/resource_classes/{name}", STAFF, named="VCPU"),
        Operation("PUT", "/resource_classes/{name}", STAFF, named="CUSTOM_ASKED_FOR"),
        Operation("DELETE", "/resource_classes/{name}", STAFF, named="CUSTOM_ABSENT"),
        Operation("GET", "/traits", STAFF),
        Operation("GET", "/traits/{name}", STAFF, named="CUSTOM_ABSENT"),
        Operation("PUT", "/traits/{name}", STAFF, named="CUSTOM_ASKED_FOR"),
        Operation("DELETE", "/traits/{name}", STAFF, named="CUSTOM_ABSENT"),
        Operation("GET", "/allocation_candidates", STAFF, query="?resources=VCPU:1"),
        Operation("POST", "/allocations", STAFF, {}),
        Operation("GET", "/allocations/{consumer_uuid}", STAFF),
        Operation("PUT", "/allocations/{consumer_uuid}", STAFF, {}),
        Operation("DELETE", "/allocations/{consumer_uuid}", STAFF),
        Operation("GET", "/usages", usages, query=f"?project_id={project}"),
        Operation("GET", "/usages", STAFF, query=f"?project_id={another}"),
        Operation("POST", "/reshaper", Rule.SERVICE, {}),
        Operation("PATCH", "/resource_providers", Rule.KNOWN),
        Operation("GET", "/nowhere", Rule.KNOWN),
    ]  # fmt: skip
