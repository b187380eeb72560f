"""Comparison of the API document with OpenStack's own: the operations with those of its generated OpenAPI document, the
parameters and the members of bodies, version by version, with the schemas of the reference."""

import importlib

# Paths and methods in OpenStack's generated document of the Placement API (gtema/openstack-openapi, 7bc4ee41,
# specs/placement/v1.yaml). It describes neither parameters of queries nor members of bodies.
OPERATIONS = {
    "/": "GET",
    "/resource_classes": "GET POST",
    "/resource_classes/{name}": "GET PUT DELETE",
    "/resource_providers": "GET POST",
    "/resource_providers/{uuid}": "GET PUT DELETE",
    "/resource_providers/{uuid}/inventories": "GET POST PUT DELETE",
    "/resource_providers/{uuid}/inventories/{resource_class}": "GET PUT DELETE",
    "/resource_providers/{uuid}/usages": "GET",
    "/resource_providers/{uuid}/aggregates": "GET PUT",
    "/resource_providers/{uuid}/allocations": "GET",
    "/allocations": "POST",
    "/allocations/{consumer_uuid}": "GET PUT DELETE",
    "/allocation_candidates": "GET",
    "/traits": "GET",
    "/traits/{name}": "GET PUT DELETE",
    "/resource_providers/{uuid}/traits": "GET PUT DELETE",
    "/usages": "GET",
    "/reshaper": "POST",
}

# Each operation with the schemas of the reference by their first version.
BODIES = {
    "POST /resource_classes": {2: "resource_class.POST_RC_SCHEMA_V1_2"},
    "PUT /resource_classes/{name}": {2: "resource_class.PUT_RC_SCHEMA_V1_2"},
    "POST /resource_providers": {
        0: "resource_provider.POST_RESOURCE_PROVIDER_SCHEMA",
        14: "resource_provider.POST_RP_SCHEMA_V1_14",
    },
    "PUT /resource_providers/{uuid}": {
        0: "resource_provider.PUT_RESOURCE_PROVIDER_SCHEMA",
        14: "resource_provider.PUT_RP_SCHEMA_V1_14",
    },
    "POST /resource_providers/{uuid}/inventories": {0: "inventory.POST_INVENTORY_SCHEMA"},
    "PUT /resource_providers/{uuid}/inventories": {0: "inventory.PUT_INVENTORY_SCHEMA"},
    "PUT /resource_providers/{uuid}/inventories/{resource_class}": {0: "inventory.PUT_INVENTORY_RECORD_SCHEMA"},
    "PUT /resource_providers/{uuid}/aggregates": {
        1: "aggregate.PUT_AGGREGATES_SCHEMA_V1_1",
        19: "aggregate.PUT_AGGREGATES_SCHEMA_V1_19",
    },
    "PUT /resource_providers/{uuid}/traits": {6: "trait.SET_TRAITS_FOR_RP_SCHEMA"},
    "POST /allocations": {
        13: "allocation.POST_ALLOCATIONS_V1_13",
        28: "allocation.POST_ALLOCATIONS_V1_28",
        34: "allocation.POST_ALLOCATIONS_V1_34",
        38: "allocation.POST_ALLOCATIONS_V1_38",
    },
    "PUT /allocations/{consumer}": {
        0: "allocation.ALLOCATION_SCHEMA",
        8: "allocation.ALLOCATION_SCHEMA_V1_8",
        12: "allocation.ALLOCATION_SCHEMA_V1_12",
        28: "allocation.ALLOCATION_SCHEMA_V1_28",
        34: "allocation.ALLOCATION_SCHEMA_V1_34",
        38: "allocation.ALLOCATION_SCHEMA_V1_38",
    },
    "POST /reshaper": {
        30: "reshaper.POST_RESHAPER_SCHEMA",
        34: "reshaper.POST_RESHAPER_SCHEMA_V1_34",
        38: "reshaper.POST_RESHAPER_SCHEMA_V1_38",
    },
}
QUERIES = {
    "GET /resource_providers": {
        0: "resource_provider.GET_RPS_SCHEMA_1_0",
        3: "resource_provider.GET_RPS_SCHEMA_1_3",
        4: "resource_provider.GET_RPS_SCHEMA_1_4",
        14: "resource_provider.GET_RPS_SCHEMA_1_14",
        18: "resource_provider.GET_RPS_SCHEMA_1_18",
    },
    "GET /traits": {6: "trait.LIST_TRAIT_SCHEMA"},
    "GET /usages": {9: "usage.GET_USAGES_SCHEMA_1_9", 38: "usage.GET_USAGES_SCHEMA_V1_38"},
    "GET /allocation_candidates": {
        10: "allocation_candidate.GET_SCHEMA_1_10",
        16: "allocation_candidate.GET_SCHEMA_1_16",
        17: "allocation_candidate.GET_SCHEMA_1_17",
        21: "allocation_candidate.GET_SCHEMA_1_21",
        25: "allocation_candidate.GET_SCHEMA_1_25",
        31: "allocation_candidate.GET_SCHEMA_1_31",
        33: "allocation_candidate.GET_SCHEMA_1_33",
        35: "allocation_candidate.GET_SCHEMA_1_35",
        36: "allocation_candidate.GET_SCHEMA_1_36",
    },
}
# Differences that are meant, each with its reason.
EXPLAINED = {
    "PUT /resource_providers/{uuid}/inventories/{resource_class} 1.0": (
        "resource_provider_generation",
        "the reference's schema does not require it, but without it the request is an internal error there",
    ),
}
METHODS = ("get", "post", "put", "delete")


def compare(document: dict) -> None:
    """Fails unless the document has the operations, parameters and members of the reference, and no others."""
    faults = []
    paths = {path: item for path, item in document["paths"].items() if _is_placement(item)}
    ours = {f"{method.upper()} {_anonymous(path)}" for path, item in paths.items() for method in METHODS if method in item}
    theirs = {f"{method} {_anonymous(path)}" for path, methods in OPERATIONS.items() for method in methods.split()}
    faults += [f"only in our document: {it}" for it in sorted(ours - theirs)]
    faults += [f"only in OpenStack's document: {it}" for it in sorted(theirs - ours)]
    compared = 0
    for operation, schemas in BODIES.items():
        for version, name in schemas.items():
            form = _body(document, _operation(paths, operation), version)
            faults += _differences(f"{operation} 1.{version}", _members(form), _members(_schema(name)))
            compared += 1
    for operation, schemas in QUERIES.items():
        for version, name in schemas.items():
            ours = _parameters(_operation(paths, operation), version)
            faults += _differences(f"{operation} 1.{version}", ours, _query(_schema(name)))
            compared += 1
    bodies = [f"{method.upper()} {path}" for path, item in paths.items() for method in METHODS
              if "requestBody" in item.get(method, {})]  # fmt: skip
    faults += [f"not compared: {it}" for it in bodies if it not in BODIES]
    faults = [it for it in faults if not any(it.startswith(f"{place}: ") and f".{member} " in it
                                             for place, (member, _) in EXPLAINED.items())]  # fmt: skip
    if faults:
        raise AssertionError("\n".join(faults))
    print(f"{len(theirs)} operations and {compared} schemas are those of the reference", flush=True)


def _is_placement(item: dict) -> bool:
    return any("Placement" in item[method]["tags"] for method in METHODS if method in item)


def _anonymous(path: str) -> str:
    return "/".join("{}" if segment.startswith("{") else segment for segment in path.split("/"))


def _operation(paths: dict, operation: str) -> dict:
    method, path = operation.split()
    return paths[path][method.lower()]


def _schema(name: str) -> dict:
    module, variable = name.split(".")
    return getattr(importlib.import_module(f"placement.schemas.{module}"), variable)


def _has(described: dict, version: int) -> bool:
    """Whether a version has what this describes."""
    mark = described.get("x-openstack", {})
    minor = lambda key, default: int(mark[key].split(".")[1]) if key in mark else default  # noqa: E731
    return minor("min-ver", 0) <= version <= minor("max-ver", 99)


def _body(document: dict, operation: dict, version: int) -> dict:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    forms = [_resolved(document, form) for form in schema.get("anyOf", [schema])]
    (form,) = [form for form in forms if _has(form, version)]
    return form


def _resolved(document: dict, schema: dict) -> dict:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _members(schema: dict, place: str = "") -> set[str]:
    """The members of a schema and of those below it, each with its type and whether it is required."""
    found = set()
    named = schema.get("properties", {}).items()
    groups = [(name, member, name in schema.get("required", [])) for name, member in named]
    groups += [(f"<{pattern}>", member, False) for pattern, member in schema.get("patternProperties", {}).items()]
    if isinstance(schema.get("additionalProperties"), dict):
        groups.append((f"<{schema['propertyNames']['pattern']}>", schema["additionalProperties"], False))
    if "items" in schema:
        groups.append(("[]", schema["items"], False))
    for name, member, is_required in groups:
        inner = f"{place}.{name}"
        kinds = member.get("type") or sorted(it["type"] for it in member["anyOf"])
        kinds = [kinds] if isinstance(kinds, str) else sorted(kinds)
        found.add(f"{inner} {'|'.join(kinds)}{' required' if is_required else ''}")
        found |= _members(member, inner)
    return found


def _parameters(operation: dict, version: int) -> set[str]:
    found = set()
    for parameter in operation["parameters"]:
        if parameter.get("in") != "query" or not _has(parameter, version):
            continue
        if parameter.get("explode"):
            continue
        found.add(parameter["name"])
    return found


def _query(schema: dict) -> set[str]:
    unsuffixed = {pattern.removeprefix("^").split("(")[0] for pattern in schema.get("patternProperties", {})}
    return set(schema["properties"]) | unsuffixed


def _differences(place: str, ours: set[str], theirs: set[str]) -> list[str]:
    return [f"{place}: only in our document: {it}" for it in sorted(ours - theirs)] + [
        f"{place}: only in the reference: {it}" for it in sorted(theirs - ours)
    ]
