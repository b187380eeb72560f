"""Capacity is never exceeded: not in any answer, not in what the log proves to be held at one time.

A consumer whose same write is shown by two reads has held it all the time in between. What is
proved to be held at one time, summed over all consumers, must fit.
"""

import collections

from history import OK, History, Operation
from violations import OVERSOLD, SHARED, SUMS, Violation
from world import CLASSES


def violations(history: History, providers: list[str]) -> list[Violation]:
    found = []
    for operation in history.operations:
        if operation.outcome == OK and operation.response:
            found += _answer(operation, set(providers))
    return found + _held_at_once(history) + _at_the_end(history)


def _answer(operation: Operation, providers: set[str]) -> list[Violation]:
    found = []
    for provider, usages in operation.response.get("usages", {}).items():
        if provider in providers:
            found += _fits(operation, provider, usages, "usage is")
    for provider, listed in operation.response.get("consumers", {}).items():
        sums = collections.Counter()
        for of in listed.values():
            sums.update(of["resources"])
        found += _fits(operation, provider, sums, "allocations add up to")
    # What the database itself says, see books.py.
    for words in operation.response.get("oversold", []):
        found.append(Violation(OVERSOLD, "the database", words, [operation]))
    for words in operation.response.get("sums", []):
        found.append(Violation(SUMS, "the database", words, [operation]))
    for words in operation.response.get("shared", []):
        found.append(Violation(SHARED, "the database", words, [operation]))
    return found


def _at_the_end(history: History) -> list[Violation]:
    """Whether every replica shows the sums that the database had when all was over."""
    found = []
    final: Operation | None = None
    for operation in history.operations:
        if operation.outcome != OK:
            continue
        response = operation.response or {}
        if operation.kind == "final":
            final = operation
        elif final is not None and operation.begin > final.end and "totals" in response:
            project = operation.request["project"]
            there = final.response["totals"].get(project, {})
            if there != response["totals"]:
                words = f"{response['totals']} are shown where the database has {there}"
                found.append(Violation(SUMS, f"project {project}", words, [operation, final]))
        elif final is not None and operation.begin > final.end:
            for provider, used in response.get("usages", {}).items():
                there = final.response["used"].get(provider)
                if there is not None and there != used:
                    words = f"{used} is shown where the database has {there}"
                    found.append(Violation(SUMS, f"provider {provider}", words, [operation, final]))
    return found


def _fits(operation: Operation, provider: str, amounts: dict, what: str) -> list[Violation]:
    return [
        Violation(OVERSOLD, f"provider {provider}", f"{what} {amount} {name} of {CLASSES[name]}", [operation])
        for name, amount in amounts.items() if amount > CLASSES.get(name, amount)
    ]  # fmt: skip


def _held_at_once(history: History) -> list[Violation]:
    shown: dict[tuple, list[Operation]] = collections.defaultdict(list)
    held: dict[tuple, dict] = {}
    for operation in history.operations:
        if operation.outcome != OK:
            continue
        # An acknowledgement shows a write as well as a read does.
        for consumer, write in operation.request.get("writes", {}).items():
            if write["allocations"]:
                _show(shown, held, operation, consumer, operation.tag, write["allocations"])
        response = operation.response or {}
        states = dict(response.get("states", {}))
        if "consumer" in operation.request:
            states[operation.request["consumer"]] = response.get("state")
        for consumer, state in states.items():
            if state:
                _show(shown, held, operation, consumer, state["tag"], state["allocations"])
    changes: dict[tuple, list] = collections.defaultdict(list)
    for key, operations in shown.items():
        since = min(operations, key=lambda o: o.end)
        until = max(operations, key=lambda o: o.begin)
        if since.end >= until.begin:
            continue
        for provider, amounts in held[key].items():
            for name, amount in amounts.items():
                changes[provider, name].append((since.end, 1, amount, since))
                changes[provider, name].append((until.begin, 0, -amount, since))
    found = []
    for (provider, name), entries in changes.items():
        total, holders = 0, {}
        for _, begins, amount, since in sorted(entries, key=lambda entry: entry[:3]):
            total += amount
            if not begins:
                holders.pop(since.number, None)
                continue
            holders[since.number] = since
            if total > CLASSES.get(name, total):
                words = f"{total} {name} of {CLASSES[name]} are held at one time"
                found.append(Violation(OVERSOLD, f"provider {provider}", words, list(holders.values())))
                break
    return found


def _show(shown, held, operation: Operation, consumer: str, tag: str, allocations: dict) -> None:
    shown[consumer, tag].append(operation)
    held[consumer, tag] = allocations
