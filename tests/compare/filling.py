"""A small cloud with nested and sharing providers, filled over the API."""

import json
import urllib.error
import urllib.request

VERSION = "1.39"
CLASSES = ["VCPU", "MEMORY_MB"]
HOSTS = 6
CONSUMERS = 12


def uuid(kind: int, number: int) -> str:
    return f"{kind:08x}-0000-4000-8000-{number:012d}"


def host(number: int) -> str:
    return uuid(0xA, number)


def numa(number: int) -> str:
    return uuid(0xB, number)


def consumer(number: int) -> str:
    return uuid(0xC, number)


def aggregate(number: int) -> str:
    return uuid(0xD, number)


SHARED = uuid(0xE, 1)


def ask(url: str, method: str, path: str, body=None, version: str = VERSION, token: str = "admin"):
    """Ask, which must succeed; the JSON of the answer."""
    headers = {"X-Auth-Token": token, "OpenStack-API-Version": f"placement {version}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body).encode()
    request = urllib.request.Request(url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read()}") from error
    return json.loads(text) if text else None


def inventory(total: int, ratio: float = 1.0) -> dict:
    return {
        "total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1,
        "allocation_ratio": ratio,
    }  # fmt: skip


class Cloud:
    """What is asked of one service."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body=None):
        return ask(self.url, method, path, body)

    def generation(self, provider: str) -> int:
        return self.ask("GET", f"/resource_providers/{provider}")["generation"]

    def put(self, provider: str, part: str, **body) -> None:
        body["resource_provider_generation"] = self.generation(provider)
        self.ask("PUT", f"/resource_providers/{provider}/{part}", body)

    def provider(self, uuid: str, name: str, parent: str | None = None) -> None:
        body = {"uuid": uuid, "name": name} | ({"parent_provider_uuid": parent} if parent else {})
        self.ask("POST", "/resource_providers", body)

    def claim(self, number: int, allocations: dict[str, dict[str, int]], type: str = "INSTANCE") -> None:
        body = {
            "allocations": {it: {"resources": amounts} for it, amounts in allocations.items()},
            "project_id": f"project-{number % 3}",
            "user_id": f"user {number % 2}/ä",
            "consumer_generation": None,
            "consumer_type": type,
        }
        self.ask("PUT", f"/allocations/{consumer(number)}", body)

    def fill(self) -> None:
        self.ask("PUT", "/resource_classes/CUSTOM_FPGA")
        for name in ("CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_UNUSED"):
            self.ask("PUT", f"/traits/{name}")
        for number in range(1, HOSTS + 1):
            self.provider(host(number), f"host-{number}")
            self.provider(numa(number), f"host-{number} numa / 0", host(number))
            self.put(host(number), "inventories", inventories={
                "VCPU": inventory(16, 4.5), "MEMORY_MB": inventory(65536)})
            self.put(numa(number), "inventories", inventories={"CUSTOM_FPGA": inventory(2)})
            colour = "CUSTOM_RED" if number % 2 else "CUSTOM_BLUE"
            self.put(host(number), "traits", traits=["HW_CPU_X86_AVX", colour])
            self.put(host(number), "aggregates", aggregates=[aggregate(1), aggregate(2 + number % 2)])
        self.provider(SHARED, "storage")
        self.put(SHARED, "inventories", inventories={"DISK_GB": inventory(10_000)})
        self.put(SHARED, "traits", traits=["MISC_SHARES_VIA_AGGREGATE"])
        self.put(SHARED, "aggregates", aggregates=[aggregate(1)])
        for number in range(1, CONSUMERS + 1):
            on = number % HOSTS + 1
            amounts = {host(on): {"VCPU": 2, "MEMORY_MB": 2048}, SHARED: {"DISK_GB": 20}}
            if number % 4 == 0:
                amounts[numa(on)] = {"CUSTOM_FPGA": 1}
            self.claim(number, amounts, "MIGRATION" if number % 5 == 0 else "INSTANCE")
