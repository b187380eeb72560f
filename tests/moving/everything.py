"""All that a placement service stores, read over its API."""

import concurrent.futures
import json
import random
import threading

import requests

NEWEST = "1.39"
TIMEOUT_SECONDS = 300


class Everything:
    """What servers over one database answer, as tables that can be compared with those of another service.

    UUIDs of consumers are in lower case: the old service shows them as somebody has spelled them, see U1 in
    docs/differences.md. Lists that have no order are sorted.
    """

    def __init__(self, urls: list[str], token: str = "admin", version: str = NEWEST) -> None:
        # One server answers one request at a time, if it is the harness's reference.
        self._urls = urls
        self._headers = {"X-Auth-Token": token, "OpenStack-API-Version": f"placement {version}"}
        self._minor = int(version.split(".")[1])
        self._local = threading.local()
        self.requests = 0

    def read(self, path: str, url: str | None = None, **headers: str):
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.headers.update(self._headers)
        answer = self._local.session.get(
            (url or self._urls[0]) + path, headers=headers, timeout=TIMEOUT_SECONDS
        )
        if answer.status_code != 200:
            raise AssertionError(f"GET {path}: {answer.status_code} {answer.text[:500]}")
        self.requests += 1
        return answer.json()

    def tables(self, some_consumers: int | None = None, queries: tuple[str, ...] = ()) -> dict[str, dict]:
        """Providers, consumers, names and the answers to queries.

        Each consumer is found below the providers it has allocations of; `some_consumers` says how many are asked
        for by themselves, too: all of them without a number.
        """
        listed = self.read("/resource_providers")["resource_providers"]
        providers = dict(self._all(self._provider, sorted(listed, key=lambda it: it["uuid"])))
        consumers, spelled = {}, {}
        for uuid, it in providers.items():
            for consumer, of in it.pop("allocations").items():
                spelled[consumer.lower()] = consumer
                held = consumers.setdefault(consumer.lower(), {"generation": of["consumer_generation"], "holds": {}})
                held["holds"][uuid] = of["resources"]
        # On PostgreSQL, the old service finds a consumer only as it is spelled.
        asked = [spelled[consumer] for consumer in sorted(consumers)]
        if some_consumers and some_consumers < len(asked):
            # By chance, so that no rule by which rows were made leaves out the consumers of a project.
            asked = sorted(random.Random("some consumers").sample(asked, some_consumers))
        for consumer, whole in self._all(self._consumer, asked):
            consumers[consumer]["whole"] = whole
        names = {"traits": sorted(self.read("/traits")["traits"])}
        classes = self.read("/resource_classes")["resource_classes"]
        names["resource classes"] = sorted(it["name"] for it in classes)
        projects = {it["whole"]["project_id"] for it in consumers.values() if "whole" in it}
        usages = dict(self._all(self._usages, sorted(projects)))
        candidates = dict(self._all(self._candidates, list(queries)))
        return {
            "order of providers": {"all": [it["uuid"] for it in listed]}, "providers": providers,
            "consumers": consumers, "names": names, "usages": usages, "candidates": candidates,
        }  # fmt: skip

    def _all(self, read, items: list):
        count = len(self._urls)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            # Each server answers its part.
            parts = [pool.submit(lambda nth: [read(it, self._urls[nth]) for it in items[nth::count]], nth)
                     for nth in range(count)]  # fmt: skip
            return [each for part in parts for each in part.result()]

    def _provider(self, shown: dict, url: str) -> tuple[str, dict]:
        below = f"/resource_providers/{shown['uuid']}"
        it = {key: value for key, value in shown.items() if key != "links"}
        it["inventories"] = self.read(f"{below}/inventories", url)["inventories"]
        it["usages"] = self.read(f"{below}/usages", url)["usages"]
        it["traits"] = sorted(self.read(f"{below}/traits", url)["traits"])
        it["aggregates"] = sorted(self.read(f"{below}/aggregates", url)["aggregates"])
        it["allocations"] = self.read(f"{below}/allocations", url)["allocations"]
        return shown["uuid"], it

    def _consumer(self, consumer: str, url: str) -> tuple[str, dict]:
        it = self.read(f"/allocations/{consumer}", url)
        keys = ["project_id", "user_id", "consumer_generation"]
        keys += ["consumer_type"] if self._minor >= 38 else []
        return consumer.lower(), {key: it[key] for key in keys}

    def _usages(self, project: str, url: str) -> tuple[str, dict]:
        # At 1.38 and above, the old service fails on PostgreSQL: R3 in docs/differences.md.
        version = {"OpenStack-API-Version": f"placement 1.{min(self._minor, 37)}"}
        return project, self.read(f"/usages?project_id={project}", url, **version)["usages"]

    def _candidates(self, query: str, url: str) -> tuple[str, dict]:
        answer = self.read(f"/allocation_candidates?{query}", url)
        offered = sorted(json.dumps(it["allocations"], sort_keys=True) for it in answer["allocation_requests"])
        for summary in answer["provider_summaries"].values():
            summary["traits"].sort()
        return query, {"requests": offered, "summaries": answer["provider_summaries"]}


def differences(old: dict[str, dict], new: dict[str, dict]) -> list[str]:
    """The rows that differ between the tables of two services, in words."""
    found = []
    for table in old:
        keys = old[table].keys() | new[table].keys()
        wrong = sorted(key for key in keys if old[table].get(key) != new[table].get(key))
        found += [f"{table} {key}: {old[table].get(key)} became {new[table].get(key)}"[:1000] for key in wrong]
    return found
