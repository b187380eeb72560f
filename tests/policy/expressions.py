"""Rules, callers and targets, made by chance."""

import random

NAMES = ("admin", "service", "reader", "Member", "a:b", "r\u00f4le", "x-y")
VALUES = ("p", "q", "u", "None", "True", "7", "-3", "p q", "r\u00f4le", "%", "")
ATTRIBUTES = (
    "user_id", "user_domain_id", "project_id", "project_domain_id", "domain_id", "system_scope", "system",
    "roles", "is_admin_project", "service_user_id", "service_project_id", "service_roles", "tenant",
    "user.name", "a.b.c",
)  # fmt: skip
TARGETS = ("project_id", "user_id", "other", "missing", "a.b", "with-dash")
LITERALS = ("True", "False", "None", "7", "-3", "0", "'p'", '"q"', "'None'", "''")
SPACES = (" ", "  ", "\t", "\n ")
BASES = 8
NOTHING_KNOWN = {
    "user_id": None, "user_domain_id": None, "system_scope": None, "domain_id": None, "project_id": None,
    "project_domain_id": None, "roles": [], "is_admin_project": True, "service_user_id": None,
    "service_user_domain_id": None, "service_project_id": None, "service_project_domain_id": None,
    "service_roles": [],
}  # fmt: skip


def rules(chance: random.Random, count: int) -> dict[str, object]:
    """Rules by name; they refer to the first ones, and those to nothing but those before them."""
    made: dict[str, object] = {}
    for number in range(count):
        name = f"base{number}" if number < BASES else f"rule{number}"
        known = [f"base{n}" for n in range(min(number, BASES))]
        if chance.random() < 0.1:
            made[name] = _list(chance, known)
        else:
            made[name] = expression(chance, known, chance.randint(0, 4))
    return made


def expression(chance: random.Random, known: list[str], depth: int) -> str:
    """An expression that can be read."""
    kind = chance.random()
    if depth == 0 or kind < 0.2:
        return leaf(chance, known)
    if kind < 0.35:
        return f"{_word(chance, 'not')}{_space(chance)}{_operand(chance, known, depth - 1)}"
    if kind < 0.5:
        return f"({_maybe_space(chance)}{expression(chance, known, depth - 1)}{_maybe_space(chance)})"
    parts = [expression(chance, known, depth - 1) for _ in range(chance.randint(2, 4))]
    joined = parts[0]
    for part in parts[1:]:
        word = _word(chance, chance.choice(("and", "or")))
        joined += f"{_space(chance)}{word}{_space(chance)}{part}"
    return joined


def leaf(chance: random.Random, known: list[str]) -> str:
    kind = chance.random()
    if kind < 0.06:
        return chance.choice(("@", "!"))
    if kind < 0.3 and known:
        return f"rule:{chance.choice(known)}"
    if kind < 0.55:
        return f"role:{_value(chance, NAMES)}"
    if kind < 0.85:
        return f"{chance.choice(ATTRIBUTES)}:{_value(chance, VALUES)}"
    return f"{chance.choice(LITERALS)}:{_value(chance, VALUES)}"


def broken(chance: random.Random) -> str:
    """An expression with words taken away, put in or exchanged."""
    words = expression(chance, ["base0"], 3).split()
    for _ in range(chance.randint(1, 2)):
        at = chance.randrange(len(words) + 1)
        what = chance.choice(("and", "or", "not", "(", ")", "role:x", "nothing", "'text'", '"text"', "@", "(@)"))
        kind = chance.random()
        if kind < 0.4:
            words.insert(at, what)
        elif kind < 0.8 and words:
            del words[at % len(words)]
        elif words:
            words[at % len(words)] = what
    # An empty one is read as "everybody" by both.
    return chance.choice((" ", "  ")).join(words)


def caller(chance: random.Random) -> dict:
    """What is known of a caller."""

    def some(values):
        return [value for value in values if chance.random() < 0.4]

    facts = dict(NOTHING_KNOWN)
    for name in facts:
        if name in ("roles", "service_roles"):
            facts[name] = some(("admin", "SERVICE", "reader", "member", "a:b", "R\u00d4LE", "x-y", "p"))
        elif name not in ("is_admin_project", "service_user_domain_id", "service_project_domain_id"):
            facts[name] = chance.choice(("p", "q", "u", "7", None))
    if facts["system_scope"]:
        facts["system"] = facts["system_scope"]
    return facts


def target(chance: random.Random) -> dict[str, str]:
    """What a request is about."""
    names = [name for name in TARGETS if name != "missing"]
    return {name: chance.choice(("p", "q", "admin", "7", "")) for name in names if chance.random() < 0.8}


def _list(chance: random.Random, known: list[str]) -> list:
    def inner():
        if chance.random() < 0.3:
            return _single(chance, known)
        return [_single(chance, known) for _ in range(chance.randint(0, 3))]

    return [inner() for _ in range(chance.randint(0, 3))]


def _single(chance: random.Random, known: list[str]) -> str:
    return leaf(chance, known)


def _operand(chance: random.Random, known: list[str], depth: int) -> str:
    if chance.random() < 0.5:
        return leaf(chance, known)
    return f"({expression(chance, known, depth)})"


def _value(chance: random.Random, values: tuple[str, ...]) -> str:
    kind = chance.random()
    if kind < 0.3:
        return f"%({chance.choice(TARGETS)})s"
    value = chance.choice(values).replace("%", "%%").replace(" ", "_")
    if kind < 0.4:
        return f"{value}%({chance.choice(TARGETS)})s"
    return value


def _word(chance: random.Random, word: str) -> str:
    return chance.choice((word, word, word.upper(), word.capitalize()))


def _space(chance: random.Random) -> str:
    return chance.choice(SPACES)


def _maybe_space(chance: random.Random) -> str:
    return chance.choice(("", "", " "))
