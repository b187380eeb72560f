"""The differences that are meant, as docs/differences.md lists them.

Each rule says of a request and its two answers whether it explains in what they
differ. What no rule explains is a failure.
"""

import json
import re
import uuid

from compare import normal
from exchange import Answer, Request

UNKNOWN_TRAITS = re.compile(r"No such trait\(s\): (.*)\.")
SEVERAL_TRAITS = re.compile(r"No such trait ([^ ,]+(?:, [^ ,]+)+)")
CLASS = re.compile(r"[A-Z0-9_]+")
MALFORMED_AGGREGATE = re.compile(r"contain valid UUID\(s\)\. Got: (.*?)  \Z")
POINT = re.compile(r"\b(\d+)\.0\b")
LAYOUT = re.compile(r"(?:&#x27;|&quot;|[\s'\"\\()])+")
GROUP = re.compile(r"^resources(.*)$")
WITH_UNDERSCORES = re.compile(r":\s*[+-]?\d+(_\d+)+\s*(,|$)")


def explanation(request: Request, reference: Answer, berth: Answer) -> str | None:
    """The name of the difference this is, if it is one of those that are meant."""
    for rule in RULES:
        if rule(request, reference, berth):
            return rule.__name__
    return None


def _groups(request: Request) -> dict[str, set[str]]:
    """The classes that each group asks for, by suffix."""
    groups: dict[str, set[str]] = {}
    for name, value in request.query:
        match = GROUP.match(name)
        if match:
            classes = {pair.split(":")[0] for pair in value.split(",")}
            groups[match[1]] = classes
    return groups


def _candidates(answer: Answer) -> list | None:
    body = answer.json()
    found = body.get("allocation_requests") if isinstance(body, dict) else None
    return None if found is None else normal(found, "allocation_requests")


def _found(answer: Answer) -> set[str] | None:
    """The providers or candidates that a search has found."""
    body = answer.json()
    providers = body.get("resource_providers") if isinstance(body, dict) else None
    found = _candidates(answer) if providers is None else [it["uuid"] for it in providers]
    return None if found is None else {json.dumps(it, sort_keys=True) for it in found}


def d1(request: Request, reference: Answer, berth: Answer) -> bool:
    """Berth has more candidates: the reference drops some before it merges groups."""
    one, other = _candidates(reference), _candidates(berth)
    if one is None or other is None or len(_groups(request)) < 2 or "" not in _groups(request):
        return False
    return len(one) < len(other) and all(candidate in other for candidate in one)


def d2(request: Request, reference: Answer, berth: Answer) -> bool:
    """The reference's amounts are too large where groups share a class."""
    groups = _groups(request)
    shared = groups.pop("", set()) & set().union(*groups.values())
    policies = [value for name, value in request.query if name == "group_policy"]
    found = _candidates(reference) is not None and _candidates(berth) is not None
    return found and bool(shared) and policies[:1] != ["none"]


def d4(request: Request, reference: Answer, berth: Answer) -> bool:
    """A pool below a root."""
    return reference.status == 500 and berth.status == 200 and _candidates(berth) is not None


def d5(request: Request, reference: Answer, berth: Answer) -> bool:
    limits = [value for name, value in request.query if name == "limit"]
    return reference.status == 500 and berth.status == 400 and len(limits) > 1


def d8(request: Request, reference: Answer, berth: Answer) -> bool:
    """A consumer that a refused write has left behind in the reference."""
    return "consumer generation conflict - expected 0 but got" in reference.detail()


def r4(request: Request, reference: Answer, berth: Answer) -> bool:
    """The reference tells what its database said."""
    said = "(sqlite3." in reference.text()
    return said and reference.status == berth.status and "sqlite" not in berth.text()


def a1(request: Request, reference: Answer, berth: Answer) -> bool:
    """A method that an old version lacks: Berth says which there are."""
    both = reference.status == berth.status == 405
    return both and "allow" not in reference.headers and request.method == "DELETE"


def b8(request: Request, reference: Answer, berth: Answer) -> bool:
    """Underscores between digits."""
    if berth.status != 400:
        return False
    if "Invalid microversion" in berth.text():
        return "_" in (request.version or "")
    amounts = [value for name, value in request.query if GROUP.match(name)]
    refused = "expected positive integer amount" in berth.text()
    return refused and any(WITH_UNDERSCORES.search(value) for value in amounts)


def b15(request: Request, reference: Answer, berth: Answer) -> bool:
    """A consumer that is no UUID."""
    by_consumer = request.path in ("/allocations", "/reshaper")
    return by_consumer and berth.status == 400 and "Malformed consumer_uuid" in berth.text()


def b14(request: Request, reference: Answer, berth: Answer) -> bool:
    """Below a name that no class could have, the reference's schema does not look at an inventory."""
    body = request.body
    inventories = body.get("inventories") if isinstance(body, dict) else None
    if not isinstance(inventories, dict) or all(CLASS.fullmatch(name) for name in inventories):
        return False
    refused = berth.status == 400 and "JSON does not validate" in berth.detail()
    return refused and reference.status in (400, 500)


def t1(request: Request, reference: Answer, berth: Answer) -> bool:
    """Of several unknown traits the reference names one, Berth all."""
    one, other = (UNKNOWN_TRAITS.search(answer.detail()) for answer in (reference, berth))
    same = reference.status == berth.status == 400
    return bool(same and one and other and one[1] in other[1].split(", "))


def t2(request: Request, reference: Answer, berth: Answer) -> bool:
    """The reference's order is a set's: of several unknown traits, and of several malformed aggregates."""
    if not reference.status == berth.status == 400:
        return False
    one, other = (SEVERAL_TRAITS.search(answer.detail()) for answer in (reference, berth))
    if one and other:
        return set(one[1].split(", ")) == set(other[1].split(", "))
    one, other = (MALFORMED_AGGREGATE.search(answer.detail()) for answer in (reference, berth))
    members = [value for name, value in request.query if name.startswith("member_of")]
    sets = [set(value.removeprefix("!").removeprefix("in:").split(",")) for value in members]
    return bool(one and other) and any({one[1], other[1]} <= named for named in sets)


def h1(request: Request, reference: Answer, berth: Answer) -> bool:
    """The reference says when the provider was last changed before this change, if it was."""
    updated = request.method == "PUT" and reference.status == berth.status == 200
    return (
        updated
        and reference.json() == berth.json()
        and "last-modified" in berth.headers.keys() - reference.headers.keys()
    )


def t3(request: Request, reference: Answer, berth: Answer) -> bool:
    """A whole number is told without a point."""
    same = reference.status == berth.status
    told = POINT.sub(r"\1", reference.detail())
    return same and told == berth.detail() and told != reference.detail()


def t4(request: Request, reference: Answer, berth: Answer) -> bool:
    """The reference breaks lines in schemas, lists and texts, each piece of which has its own quotes."""
    # Without JSON, the error is a page or a text.
    one, other = (answer.detail() or answer.text() for answer in (reference, berth))
    same = reference.status == berth.status == 400
    return same and LAYOUT.sub("", one) == LAYOUT.sub("", other) and "Failed validating" in other


def u1_of_consumers(request: Request, reference: Answer, berth: Answer) -> bool:
    """Consumers are listed in the usual spelling, and by the reference as they were sent."""
    listed = request.method == "GET" and request.path.endswith("/allocations")
    one, other = reference.json(), berth.json()
    if not listed or not isinstance(one, dict) or not isinstance(other, dict):
        return False
    of_reference, of_berth = one.pop("allocations", {}), other.pop("allocations", {})
    usual = {str(uuid.UUID(name.replace("-", ""))): it for name, it in of_reference.items()}
    return one == other and usual.keys() != of_reference.keys() and normal(usual) == normal(of_berth)


def u1(request: Request, reference: Answer, berth: Answer) -> bool:
    """Aggregates that are spelled otherwise are found, too; `!` leaves more out for the same reason."""
    named = [value for name, value in request.query if name.startswith("member_of")]
    one, other = _found(reference), _found(berth)
    if named and one == set() and berth.status == 400:
        # The reference finds no member, so it does not look up the traits.
        return bool(UNKNOWN_TRAITS.search(berth.detail()))
    if not named or one is None or other is None:
        return False
    return one < other or (other < one and any(value.startswith("!") for value in named))


RULES = [a1, b8, b14, b15, d1, d2, d4, d5, d8, h1, r4, t1, t2, t3, t4, u1, u1_of_consumers]
