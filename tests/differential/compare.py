"""Whether two answers say the same.

Compared are the status, the headers in `HEADERS` and the body: JSON as a structure,
with integers told from other numbers, anything else byte by byte. What an answer
says of itself is masked, and what has no order is sorted.
"""

import json
import re

from exchange import Answer, Request

# Headers whose values must be the same, and those of which only it counts whether they are there.
HEADERS = ["content-type", "location", "allow", "openstack-api-version", "www-authenticate"]
PRESENCE = ["cache-control", "last-modified"]
# Berth compresses answers of so many bytes and more, if the client asks for it.
COMPRESS_FROM = 8192

# Texts of which only the beginning is compared, up to and with the match, and why.
PREFIXES = [
    # Parsers of JSON describe in their own ways where it went wrong.
    re.compile(r"Malformed JSON:"),
]

# Names that the reference takes from a set, in whatever order.
SETS = [
    re.compile(r"(?P<before>Inventory for '|' on resource provider ')(?P<names>[^']*)(?=')"),
    re.compile(r"(?P<before>`same_subtree`: \[)(?P<names>[^\]]*)"),
    re.compile(r"(?P<before>Inventory for &#x27;|#x27; on resource provider &#x27;)(?P<names>[^&]*)"),
]

# Members whose values are in no order.
UNORDERED = {"resource_providers", "resource_classes", "traits", "aggregates"}


def differences(request: Request, reference: Answer, berth: Answer) -> list[str]:
    """In what the answers differ, a line each; nothing if they do not."""
    found = []
    if reference.status != berth.status:
        found.append(f"status: {reference.status} != {berth.status}")
    for name in HEADERS:
        one, other = reference.headers.get(name), berth.headers.get(name)
        if one != other:
            found.append(f"{name}: {one!r} != {other!r}")
    for name in PRESENCE:
        one, other = name in reference.headers, name in berth.headers
        if one != other:
            found.append(f"{name}: {'present' if one else 'absent'} in the reference only")
    found += _vary(reference, berth)
    found += _bodies(request, reference, berth)
    return found


def _vary(reference: Answer, berth: Answer) -> list[str]:
    """The reference leaves `Vary` out of some refusals. Berth compresses large answers (H3)."""
    one, other = (_names(answer.headers.get("vary", "")) for answer in (reference, berth))
    is_json = berth.headers.get("content-type", "").startswith("application/json")
    expected = {"accept-encoding"} if is_json and len(berth.body) >= COMPRESS_FROM else set()
    if one <= other and other - {"openstack-api-version"} == expected:
        return []
    return [f"vary: {sorted(one)} != {sorted(other)}"]


def _names(header: str) -> set[str]:
    return {name.strip().lower() for name in header.split(",") if name.strip()}


def _bodies(request: Request, reference: Answer, berth: Answer) -> list[str]:
    one, other = reference.json(), berth.json()
    if one is None or other is None:
        one, other = _text(reference), _text(berth)
        return [] if one == other else [f"body: {one!r} != {other!r}"]
    one, other = normal(one), normal(other)
    if cut_short(request, one) and cut_short(request, other):
        return []
    return list(_structures(one, other, "body"))


def _text(answer: Answer) -> str:
    return _shortened(_ordered(answer.text()))


def cut_short(request: Request, body) -> bool:
    """Whether these are candidates cut off by a limit: any so many of them will do."""
    limits = [value for name, value in request.query if name == "limit"]
    found = body.get("allocation_requests") if isinstance(body, dict) else None
    return found is not None and bool(limits) and str(len(found)) == limits[0]


def both_cut_short(request: Request, reference: Answer, berth: Answer) -> bool:
    """Whether either server could have left candidates out."""
    return all(cut_short(request, answer.json()) for answer in (reference, berth))


def no_part_of(answer: Answer, whole: Answer, roots: dict[str, str]) -> list[str]:
    """Why these candidates are no part of the whole; nothing if they are.

    Every candidate is one of the whole, and the providers summarised are those of the whole that are
    in a tree of which a candidate has something. `roots` has the root of each provider.
    """
    part, whole = (normal(it.json()) for it in (answer, whole))
    found = [
        f"{_brief(it)} is no candidate"
        for it in _without(part["allocation_requests"], whole["allocation_requests"])
    ]
    used = {
        roots[uuid] for it in part["allocation_requests"] for uuid in _providers_of(it["allocations"])
    }
    expected = {
        uuid: it for uuid, it in whole["provider_summaries"].items() if roots[uuid] in used
    }
    return found + list(_structures(expected, part["provider_summaries"], "summaries"))


def _providers_of(allocations) -> list[str]:
    if isinstance(allocations, dict):
        return list(allocations)
    return [it["resource_provider"]["uuid"] for it in allocations]


def normal(value, name: str = ""):
    """The value without what differs from answer to answer."""
    if isinstance(value, dict):
        return {key: normal(member, key) for key, member in value.items()}
    if isinstance(value, list):
        items = [normal(item, name) for item in value]
        unordered = name in UNORDERED or name == "allocation_requests" or name == "allocations"
        return sorted(items, key=_text_of) if unordered or _is_mapping(items) else items
    if name == "request_id":
        return "masked"
    if name == "detail":
        return _shortened(_ordered(value))
    if name == "allocation_ratio" and isinstance(value, int):
        # The reference says 1 again to whoever wrote 1, and 1.0 ever after.
        return float(value)
    return value


def _ordered(text: str) -> str:
    """The text with the names of sets in order."""
    for names in SETS:
        text = names.sub(_sorted_names, text)
    return text


def _sorted_names(found: re.Match) -> str:
    return found["before"] + ", ".join(sorted(found["names"].split(", ")))


def _is_mapping(items: list) -> bool:
    """Providers of a group."""
    return all(isinstance(item, str) and len(item) == 36 for item in items)


def _shortened(text: str) -> str:
    for prefix in PREFIXES:
        match = prefix.search(text)
        if match:
            return text[: match.end()]
    return text


def _text_of(item) -> str:
    return json.dumps(item, sort_keys=True)


def _structures(one, other, where: str):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() - other.keys():
            yield f"{where}.{key}: {_brief(one[key])} in the reference only"
        for key in other.keys() - one.keys():
            yield f"{where}.{key}: {_brief(other[key])} in Berth only"
        for key in sorted(one.keys() & other.keys()):
            yield from _structures(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other) == 1:
        yield from _structures(one[0], other[0], f"{where}[0]")
    elif isinstance(one, list) and isinstance(other, list):
        lacking = _without(one, other)
        excess = _without(other, one)
        for item in lacking[:5]:
            yield f"{where}: {_brief(item)} in the reference only"
        for item in excess[:5]:
            yield f"{where}: {_brief(item)} in Berth only"
        if not lacking and not excess and one != other:
            yield f"{where}: in another order"
    elif one != other or isinstance(one, bool) != isinstance(other, bool):
        yield f"{where}: {_brief(one)} != {_brief(other)}"
    elif isinstance(one, int) and not isinstance(other, int):
        yield f"{where}: {one!r} is written {other!r}"


def _without(items: list, others: list) -> list:
    left = [_text_of(item) for item in others]
    missing = []
    for item in items:
        text = _text_of(item)
        if text in left:
            left.remove(text)
        else:
            missing.append(item)
    return missing


def _brief(value) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 1500 else f"{text[:1500]} ..."
