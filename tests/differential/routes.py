"""Requests for every route, mostly such as make sense.

Each function makes one kind of request from what exists; `KINDS` weighs them.
Bodies have the form of the version asked for.
"""

from cloud import CUSTOM_CLASSES, CUSTOM_TRAITS, OWNERS, PROVIDERS_MAX, TYPES, Cloud
from exchange import Request
from queries import candidates_query, providers_query


def version(cloud: Cloud, since: int = 0) -> str | None:
    """A version, mostly one that has the thing asked for."""
    if cloud.chance(0.03):
        since = 0
    if cloud.chance(0.04):
        return cloud.pick(["latest", None])
    if cloud.chance(0.3):
        return "1.39"
    return f"1.{cloud.rng.randint(since, 39)}"


def minor(microversion: str | None) -> int:
    return Request("GET", "/", microversion).minor


def root(cloud: Cloud) -> Request:
    return Request("GET", "/", version(cloud))


def provider_path(cloud: Cloud, rest: str = "") -> str:
    return f"/resource_providers/{cloud.any_provider()}{rest}"


# Providers


def create_provider(cloud: Cloud) -> Request:
    microversion = version(cloud)
    body = {"name": cloud.new_name(), "uuid": cloud.new_uuid()}
    if cloud.chance(0.05) and cloud.providers:
        body["name"] = cloud.pick(cloud.providers.values()).name
    if cloud.chance(0.05) and cloud.providers:
        body["uuid"] = cloud.pick(cloud.providers)
    if minor(microversion) >= 14 and cloud.chance(0.6):
        body["parent_provider_uuid"] = cloud.any_provider() if cloud.chance(0.9) else None
    if len(cloud.providers) > PROVIDERS_MAX:
        return delete_provider(cloud)
    return Request("POST", "/resource_providers", microversion, body=body)


def update_provider(cloud: Cloud) -> Request:
    microversion = version(cloud)
    uuid = cloud.any_provider()
    known = cloud.providers.get(uuid)
    body = {"name": cloud.new_name() if cloud.chance(0.3) or not known else known.name}
    if minor(microversion) >= 14:
        parents = [None, known.parent if known else None, cloud.any_provider()]
        if cloud.chance(0.8):
            body["parent_provider_uuid"] = cloud.pick(parents)
    return Request("PUT", f"/resource_providers/{uuid}", microversion, body=body)


def show_provider(cloud: Cloud) -> Request:
    return Request("GET", provider_path(cloud), version(cloud))


def delete_provider(cloud: Cloud) -> Request:
    return Request("DELETE", provider_path(cloud), version(cloud))


def list_providers(cloud: Cloud) -> Request:
    microversion = version(cloud)
    query = providers_query(cloud, minor(microversion))
    return Request("GET", "/resource_providers", microversion, query)


# Inventories


def inventory(cloud: Cloud) -> dict:
    total = cloud.pick([1, 2, 4, 8, 16, 100, 1000, 2147483647])
    record = {"total": total}
    if cloud.chance(0.3):
        record["reserved"] = cloud.pick([0, 0, 1, total, total + 1, total // 2])
    if cloud.chance(0.3):
        record["allocation_ratio"] = cloud.pick([1, 1.0, 0.5, 1.5, 16.0, 0.29, 0.1, 3.4, 1000])
    if cloud.chance(0.2):
        record["min_unit"] = cloud.pick([1, 2])
    if cloud.chance(0.3):
        record["max_unit"] = cloud.pick([1, 4, total, 1000])
    if cloud.chance(0.2):
        record["step_size"] = cloud.pick([1, 1, 2, 3])
    return record


def replace_inventories(cloud: Cloud) -> Request:
    uuid = cloud.any_provider()
    classes = {cloud.any_class() for _ in range(cloud.rng.randint(0, 4))}
    body = {
        "resource_provider_generation": cloud.provider_generation(uuid),
        "inventories": {name: inventory(cloud) for name in sorted(classes)},
    }
    return Request("PUT", f"/resource_providers/{uuid}/inventories", version(cloud), body=body)


def create_inventory(cloud: Cloud) -> Request:
    body = {"resource_class": cloud.any_class(), **inventory(cloud)}
    if cloud.chance(0.2):
        body["resource_provider_generation"] = cloud.rng.randint(0, 9)
    return Request("POST", provider_path(cloud, "/inventories"), version(cloud), body=body)


def update_inventory(cloud: Cloud) -> Request:
    uuid = cloud.any_provider()
    body = {"resource_provider_generation": cloud.provider_generation(uuid), **inventory(cloud)}
    path = f"/resource_providers/{uuid}/inventories/{cloud.any_class()}"
    return Request("PUT", path, version(cloud), body=body)


def show_inventory(cloud: Cloud) -> Request:
    path = provider_path(cloud, f"/inventories/{cloud.any_class()}")
    return Request("GET", path, version(cloud))


def delete_inventory(cloud: Cloud) -> Request:
    path = provider_path(cloud, f"/inventories/{cloud.any_class()}")
    return Request("DELETE", path, version(cloud))


def list_inventories(cloud: Cloud) -> Request:
    return Request("GET", provider_path(cloud, "/inventories"), version(cloud))


def delete_inventories(cloud: Cloud) -> Request:
    return Request("DELETE", provider_path(cloud, "/inventories"), version(cloud, 5))


# What else belongs to a provider


def replace_traits(cloud: Cloud) -> Request:
    uuid = cloud.any_provider()
    body = {
        "resource_provider_generation": cloud.provider_generation(uuid),
        "traits": [cloud.any_trait() for _ in range(cloud.rng.randint(0, 3))],
    }
    if cloud.chance(0.9):
        body["traits"] = sorted(set(body["traits"]))
    return Request("PUT", f"/resource_providers/{uuid}/traits", version(cloud, 6), body=body)


def list_provider_traits(cloud: Cloud) -> Request:
    return Request("GET", provider_path(cloud, "/traits"), version(cloud, 6))


def delete_traits(cloud: Cloud) -> Request:
    return Request("DELETE", provider_path(cloud, "/traits"), version(cloud, 6))


def replace_aggregates(cloud: Cloud) -> Request:
    uuid = cloud.any_provider()
    microversion = version(cloud, 1)
    body = sorted(cloud.spelt(it) for it in cloud.some(cloud.aggregates, 0, 3))
    if minor(microversion) >= 19:
        body = {
            "resource_provider_generation": cloud.provider_generation(uuid),
            "aggregates": body,
        }
    return Request("PUT", f"/resource_providers/{uuid}/aggregates", microversion, body=body)


def list_aggregates(cloud: Cloud) -> Request:
    return Request("GET", provider_path(cloud, "/aggregates"), version(cloud, 1))


def provider_usages(cloud: Cloud) -> Request:
    return Request("GET", provider_path(cloud, "/usages"), version(cloud))


def provider_allocations(cloud: Cloud) -> Request:
    return Request("GET", provider_path(cloud, "/allocations"), version(cloud))


# Names


def create_class(cloud: Cloud) -> Request:
    body = {"name": cloud.pick(CUSTOM_CLASSES) if cloud.chance(0.9) else cloud.any_class()}
    return Request("POST", "/resource_classes", version(cloud, 2), body=body)


def put_class(cloud: Cloud) -> Request:
    microversion = version(cloud, 2)
    name = cloud.pick(CUSTOM_CLASSES) if cloud.chance(0.9) else cloud.any_class()
    body = {"name": cloud.pick(CUSTOM_CLASSES)} if minor(microversion) < 7 else None
    return Request("PUT", f"/resource_classes/{name}", microversion, body=body)


def show_class(cloud: Cloud) -> Request:
    return Request("GET", f"/resource_classes/{cloud.any_class()}", version(cloud, 2))


def delete_class(cloud: Cloud) -> Request:
    name = cloud.pick(CUSTOM_CLASSES) if cloud.chance(0.8) else cloud.any_class()
    return Request("DELETE", f"/resource_classes/{name}", version(cloud, 2))


def list_classes(cloud: Cloud) -> Request:
    return Request("GET", "/resource_classes", version(cloud, 2))


def put_trait(cloud: Cloud) -> Request:
    name = cloud.pick(CUSTOM_TRAITS) if cloud.chance(0.9) else cloud.any_trait()
    return Request("PUT", f"/traits/{name}", version(cloud, 6))


def show_trait(cloud: Cloud) -> Request:
    return Request("GET", f"/traits/{cloud.any_trait()}", version(cloud, 6))


def delete_trait(cloud: Cloud) -> Request:
    name = cloud.pick(CUSTOM_TRAITS) if cloud.chance(0.8) else cloud.any_trait()
    return Request("DELETE", f"/traits/{name}", version(cloud, 6))


def list_traits(cloud: Cloud) -> Request:
    names = ",".join(cloud.any_trait() for _ in range(cloud.rng.randint(1, 3)))
    query = []
    if cloud.chance(0.5):
        query.append(("name", cloud.pick([f"in:{names}", "startswith:CUSTOM", "like:X", names])))
    if cloud.chance(0.4) or not query:
        query.append(("associated", cloud.pick(["true", "false", "True", "yes", ""])))
    return Request("GET", "/traits", version(cloud, 6), query)


# Allocations


def amounts(cloud: Cloud) -> dict[str, int]:
    classes = sorted({cloud.any_class() for _ in range(cloud.rng.randint(1, 2))})
    return {name: cloud.pick([1, 1, 1, 2, 3, 4, 8, 50]) for name in classes}


def allocations(cloud: Cloud, least: int = 1) -> dict[str, dict]:
    """By provider, mostly of classes that have an inventory there."""
    count = cloud.rng.randint(least, 2)
    return {cloud.any_provider(): {"resources": amounts(cloud)} for _ in range(count)}


def claim_fields(cloud: Cloud, number: int, consumer: str) -> dict:
    fields = {}
    if number >= 8:
        fields |= {"project_id": cloud.pick(OWNERS), "user_id": cloud.pick(OWNERS)}
    if number >= 28:
        fields["consumer_generation"] = cloud.consumer_generation(consumer)
    if number >= 38:
        fields["consumer_type"] = cloud.pick(TYPES)
    if number >= 34 and cloud.chance(0.2):
        suffixes = cloud.some(["", "1", "42", "_G", "-a", "_" + "x" * 62, "a b"], 1, 2)
        fields["mappings"] = {it: [cloud.any_provider() for _ in range(2)] for it in suffixes}
    return fields


def replace_allocations(cloud: Cloud) -> Request:
    microversion = version(cloud)
    consumer = cloud.any_consumer()
    number = minor(microversion)
    wanted = allocations(cloud, 0 if number >= 28 and cloud.chance(0.2) else 1)
    if number < 12:
        listed = [{"resource_provider": {"uuid": it}, **entry} for it, entry in wanted.items()]
        body = {"allocations": listed}
    else:
        if cloud.chance(0.1):
            for entry in wanted.values():
                entry["generation"] = cloud.rng.randint(0, 5)
        body = {"allocations": wanted}
    body |= claim_fields(cloud, number, consumer)
    return Request("PUT", f"/allocations/{consumer}", microversion, body=body)


def by_consumer(cloud: Cloud, number: int) -> dict:
    body = {}
    consumers = cloud.some(cloud.consumers, 1, 3)
    if cloud.chance(0.1):
        consumers.append(cloud.new_consumer())
    if cloud.chance(0.01):
        # Not a UUID: B15.
        consumers.append(cloud.pick(["0" * 36, "-" * 36, "a" * 35 + "-"]))
    for consumer in consumers:
        wanted = {} if cloud.chance(0.25) else allocations(cloud)
        body[consumer] = {"allocations": wanted, **claim_fields(cloud, number, consumer)}
    return body


def replace_many(cloud: Cloud) -> Request:
    microversion = version(cloud, 13)
    return Request("POST", "/allocations", microversion, body=by_consumer(cloud, minor(microversion)))


def show_allocations(cloud: Cloud) -> Request:
    return Request("GET", f"/allocations/{cloud.any_consumer()}", version(cloud))


def delete_allocations(cloud: Cloud) -> Request:
    return Request("DELETE", f"/allocations/{cloud.any_consumer()}", version(cloud))


def reshape(cloud: Cloud) -> Request:
    microversion = version(cloud, 30)
    inventories = {}
    for uuid in [cloud.any_provider() for _ in range(cloud.rng.randint(1, 2))]:
        classes = {cloud.any_class() for _ in range(cloud.rng.randint(0, 4))}
        inventories[uuid] = {
            "resource_provider_generation": cloud.provider_generation(uuid),
            "inventories": {name: inventory(cloud) for name in sorted(classes)},
        }
    claims = by_consumer(cloud, minor(microversion)) if cloud.chance(0.7) else {}
    body = {"inventories": inventories, "allocations": claims}
    return Request("POST", "/reshaper", microversion, body=body)


def total_usages(cloud: Cloud) -> Request:
    microversion = version(cloud, 9)
    query = [("project_id", cloud.pick(OWNERS))]
    if cloud.chance(0.4):
        query.append(("user_id", cloud.pick(OWNERS)))
    if minor(microversion) >= 38 and cloud.chance(0.6):
        query.append(("consumer_type", cloud.pick([*TYPES, "all", "unknown", "ALL", "allsorts"])))
    return Request("GET", "/usages", microversion, query)


def list_candidates(cloud: Cloud) -> Request:
    microversion = version(cloud, 10)
    query = candidates_query(cloud, minor(microversion))
    return Request("GET", "/allocation_candidates", microversion, query)


# What a request is, and how often it comes, in any cloud and while one is being built.
KINDS = {
    root: (1, 0),
    create_provider: (8, 30),
    update_provider: (5, 1),
    show_provider: (5, 0),
    delete_provider: (3, 0),
    list_providers: (16, 0),
    replace_inventories: (10, 30),
    create_inventory: (4, 5),
    update_inventory: (5, 0),
    show_inventory: (3, 0),
    delete_inventory: (3, 0),
    list_inventories: (3, 0),
    delete_inventories: (2, 0),
    replace_traits: (7, 15),
    list_provider_traits: (2, 0),
    delete_traits: (1, 0),
    replace_aggregates: (7, 15),
    list_aggregates: (2, 0),
    provider_usages: (3, 0),
    provider_allocations: (4, 0),
    create_class: (2, 4),
    put_class: (3, 4),
    show_class: (1, 0),
    delete_class: (1, 0),
    list_classes: (1, 0),
    put_trait: (3, 8),
    show_trait: (1, 0),
    delete_trait: (1, 0),
    list_traits: (3, 0),
    replace_allocations: (16, 12),
    replace_many: (10, 0),
    show_allocations: (5, 0),
    delete_allocations: (3, 0),
    reshape: (8, 0),
    total_usages: (4, 0),
    list_candidates: (34, 0),
}


def any_request(cloud: Cloud, building: bool) -> Request:
    kinds = list(KINDS)
    weights = [KINDS[kind][1 if building else 0] for kind in kinds]
    kind = cloud.rng.choices(kinds, weights)[0]
    request = kind(cloud)
    request.kind = kind.__name__
    return request
