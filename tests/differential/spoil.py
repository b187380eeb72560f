"""Making a request wrong, in one of the ways in which clients get them wrong.

What only one of the two servers can be asked, such as bytes that are no UTF-8 or
integers that SQLite cannot hold or a path beyond ASCII, is not here: tests/api/bad_input.rs has those.
"""

import copy
import dataclasses
import json

from cloud import Cloud
from exchange import Request

VALUES = [
    None, True, False, -1, 0, 1, 1.5, 8.0, 1e3, 2147483647, 2147483648, "", "a", "1", "x" * 201,
    "x" * 256, "VCPU", "CUSTOM_" + "A" * 249, "é", "<b>'\"&", [], [1], ["a", "a"], {}, {"a": 1},
]  # fmt: skip
RAW_BODIES = [
    b"", b" ", b"{", b"[", b'{"a": }', b"nonsense", b"null", b"1", b"[]", b"{}", b'"text"',
    b'{"a": 1} x', b'{"a": 1,}', b"{'a': 1}",
]  # fmt: skip
TEXTS = [
    "", " ", ",", "!", "!!", "in:", "!in:", ":", "VCPU", "VCPU:", ":1", "VCPU:1:2", "VCPU:0",
    "VCPU:-1", "VCPU:a", "VCPU: 1", "VCPU:+1", "VCPU:1_0", "VCPU:1__0", "VCPU:1_", "VCPU:1.0", "VCPU:1,VCPU:2", "VCPU:1,", "in:a,a",
    "in:CUSTOM_RED,", "in:!CUSTOM_RED", "!in:CUSTOM_RED", "CUSTOM_RED,!CUSTOM_RED", "1", "0", "-1",
    "true", "TRUE", "é", "<b>", "x" * 300, "none", "a,b", "_A", "_A,", "_Z", "00", "1.5",
]  # fmt: skip
PARAMETERS = [
    "name", "uuid", "member_of", "resources", "in_tree", "required", "limit", "group_policy",
    "root_required", "same_subtree", "resources1", "required1", "member_of1", "in_tree1",
    "resources0", "resources01", "resources_A", "required_A", "resources-", "resources" + "a" * 65,
    "resources ", "Resources", "nonsense", "", "project_id", "user_id", "consumer_type",
    "associated",
]  # fmt: skip
VERSIONS = [
    "1.40", "1.00", "1.39.0", " 1.10", "1.10 ", "0.9", "2.0", "1", "1.", "1.1.1", "foo", "latest ",
    "LATEST", "-1.0", "1.01", "1.+1", "1_.1", "1.1_",
]  # fmt: skip
# Versions that the reference knows and Berth does not: B8. A write would be made by one of them only.
VERSIONS_TO_READ = ["1.1_0", "1.3_9"]
ACCEPTS = [
    "*/*", "text/html", "text/plain", "application/xml", "text/*", "application/*", "nonsense",
    "application/json;q=0.5, text/html", "text/html;q=0.5, application/json",
    "application/json;q=0", "",
]  # fmt: skip
TYPES = [
    None, "", "text/plain", "application/json; charset=utf-8", "Application/JSON", "json",
    "application/x-www-form-urlencoded", "application/json;",
]  # fmt: skip
CALLERS = [
    {"X-Auth-Token": None},
    {"X-Auth-Token": ""},
    {"X-Auth-Token": "user"},
    {"X-Auth-Token": "user:alpha", "X-Roles": "reader"},
    {"X-Auth-Token": "user:alpha", "X-Roles": "member"},
    {"X-Auth-Token": "user:alpha", "X-Roles": "Service, reader"},
    {"X-Auth-Token": "admin:alpha"},
    {"X-Auth-Token": "admin", "X-Roles": ""},
    {"X-Auth-Token": "admin", "OpenStack-System-Scope": "all"},
    {"X-Auth-Token": "admin", "X-Domain-Id": "default"},
    {"X-Auth-Token": "user", "X-Project-Id": "beta", "X-Roles": "reader"},
]
METHODS = ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "NONSENSE"]
PATHS = [
    lambda path: path + "/",
    lambda path: path + "/more",
    lambda path: path.upper(),
    lambda path: path.replace("s/", "s//", 1),
    lambda path: path.replace("_", "%5F"),
    lambda path: path + "%20",
    lambda path: path.rsplit("/", 1)[0] or "/",
    lambda path: path.rsplit("/", 1)[0] + "/" + "A" * 300,
    lambda path: path.rsplit("/", 1)[0] + "/nonsense",
    lambda path: path.rsplit("/", 1)[0] + "/%3Cb%3E",
]


def spoil(cloud: Cloud, request: Request) -> Request:
    """The same request with something wrong, mostly in what it says."""
    ways = [_version, _accept, _type, _caller, _method, _path]
    if request.method == "GET":
        ways += [_query] * 12
    if request.body is not None:
        ways += [_member] * 14 + [_raw_body] * 2
    spoilt = cloud.pick(ways)(cloud, dataclasses.replace(request, headers=dict(request.headers)))
    return spoilt


def _version(cloud: Cloud, request: Request) -> Request:
    versions = VERSIONS + (VERSIONS_TO_READ if request.method == "GET" else [])
    return dataclasses.replace(request, version=cloud.pick(versions))


def _accept(cloud: Cloud, request: Request) -> Request:
    request.headers["Accept"] = cloud.pick(ACCEPTS)
    return request


def _type(cloud: Cloud, request: Request) -> Request:
    request.headers["Content-Type"] = cloud.pick(TYPES)
    return request


def _caller(cloud: Cloud, request: Request) -> Request:
    request.headers |= cloud.pick(CALLERS)
    return request


def _method(cloud: Cloud, request: Request) -> Request:
    return dataclasses.replace(request, method=cloud.pick(METHODS))


def _path(cloud: Cloud, request: Request) -> Request:
    return dataclasses.replace(request, path=cloud.pick(PATHS)(request.path))


def _raw_body(cloud: Cloud, request: Request) -> Request:
    raw = cloud.pick(RAW_BODIES)
    if cloud.chance(0.4):
        whole = json.dumps(request.body)
        raw = whole[: cloud.rng.randint(0, len(whole) - 1)].encode()
    return dataclasses.replace(request, body=raw)


def _query(cloud: Cloud, request: Request) -> Request:
    query = list(request.query)
    at = cloud.rng.randrange(len(query)) if query else None
    way = cloud.rng.randrange(6)
    if way == 0 and query:
        name, _ = query[at]
        query[at] = (name, cloud.pick(TEXTS))
    elif way == 1 and query:
        query.append(cloud.pick(query))
    elif way == 2 and query:
        del query[at]
    elif way == 3 and query:
        query.append((query[at][0], cloud.pick(TEXTS)))
    elif way == 4:
        query.append((cloud.pick(PARAMETERS), cloud.pick(TEXTS)))
    else:
        raw = cloud.pick(["&", "&&a", "limit", "resources", "=", "a=b=c", "name=a+b", "a;b=1"])
        return dataclasses.replace(request, raw_query=raw)
    return dataclasses.replace(request, query=query)


def _member(cloud: Cloud, request: Request) -> Request:
    """Something other in one place of the body."""
    body = copy.deepcopy(request.body)
    places = list(_places(body))
    container, key = cloud.pick(places) if places else (None, None)
    way = cloud.rng.randrange(10)
    if container is None:
        body = cloud.pick(VALUES)
    elif way < 5:
        container[key] = cloud.pick(VALUES)
    elif way < 7 and key != "uuid":
        # A provider without a UUID would get another one on each server.
        del container[key]
    elif way == 7 and isinstance(container, dict):
        container[cloud.pick(["nonsense", "Name", "total ", "", "é", "VCPU"])] = cloud.pick(VALUES)
    elif way == 8 and isinstance(container, dict) and key != "uuid":
        container[cloud.pick(["nonsense", "vcpu", "CUSTOM_NEVER"])] = container.pop(key)
    elif isinstance(container, list):
        container.append(copy.deepcopy(container[key]))
    else:
        container[key] = [container[key]]
    return dataclasses.replace(request, body=body)


def _places(value):
    """Every container with every key in it."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
