"""The greedy of Valet's engine: the largest servers first, each on the best host, without a way back.

A node is a server, or the servers of an affinity group. Its weight is its share of what is available, by
class; the best host is that with the least capacity left. A group at the level of racks is placed rack by
rack: if a node in it finds no host, the next rack is tried. The first node without a host fails the plan.
"""

import collections

from instances import Instance
from model import Kind, kinds


class _State:
    """What is free, and which servers of which groups are where."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.free = [pool.free for pool in instance.pools]
        available = collections.Counter()
        for pool in instance.pools:
            available[pool.name] += pool.free
        self.weights = {name: 1 / max(1, available[name]) for name in instance.classes}
        self.on_host: dict[int, set[int]] = collections.defaultdict(set)
        self.in_unit: dict[tuple[int, int], int] = collections.Counter()
        self.placement = [-1] * len(instance.servers)
        groups = enumerate(instance.groups)
        self.domains = {n: instance.domains(group) for n, group in groups if group.skew is not None}

    def left(self, host: int) -> float:
        """The capacity left on a host, weighted."""
        pools = self.instance.hosts[host].pools
        return sum(self.weights[name] * sum(self.free[p] for p in pools[name]) for name in pools)

    def draws(self, kind: Kind, host: int) -> list[tuple[int, int]] | None:
        """Which pools a bundle takes how much from; each class from the fullest pool that has it."""
        draws: collections.Counter = collections.Counter()
        pools = self.instance.hosts[host].pools
        for flavor, count in kind.flavors.items():
            for name, amount in self.instance.needs[flavor].items():
                for _ in range(count):
                    fit = [p for p in pools[name] if self.free[p] - draws[p] >= amount]
                    if not fit:
                        return None
                    draws[min(fit, key=lambda p: self.free[p] - draws[p])] += amount
        return list(draws.items())

    def allows(self, kind: Kind, host: int) -> bool:
        """Whether the groups let a bundle on a host."""
        here = self.on_host.get(host, set())
        for number in kind.groups:
            group = self.instance.groups[number]
            unit = host if group.level == "host" else self.instance.hosts[host].rack
            if group.skew is not None:
                domains = self.domains[number]
                least = min(self.in_unit[number, domain] for domain in domains)
                if unit not in domains or self.in_unit[number, unit] + 1 - least > group.skew:
                    return False
            elif group.kind == "diversity" and self.in_unit[number, unit] >= group.most:
                return False
            if group.kind == "exclusivity" and (self.instance.hosts[host].in_use or here - {number}):
                return False
        alone = {number for number in here if number >= 0}
        return not alone - kind.groups

    def put(self, kind: Kind, bundle: list[int], host: int, draws: list) -> None:
        for pool, amount in draws:
            self.free[pool] -= amount
        self._note(kind, host, 1)
        for server in bundle:
            self.placement[server] = host

    def _note(self, kind: Kind, host: int, by: int) -> None:
        for number in kind.groups:
            level = self.instance.groups[number].level
            self.in_unit[number, host if level == "host" else self.instance.hosts[host].rack] += by
        exclusive = {n for n in kind.groups if self.instance.groups[n].kind == "exclusivity"}
        self.on_host[host] |= exclusive or {-1}

    def copy(self) -> "_State":
        other = _State.__new__(_State)
        other.instance, other.weights, other.domains = self.instance, self.weights, self.domains
        other.free, other.placement = list(self.free), list(self.placement)
        other.on_host = collections.defaultdict(set, {h: set(it) for h, it in self.on_host.items()})
        other.in_unit = collections.Counter(self.in_unit)
        return other


def solve(instance: Instance) -> list[int] | None:
    """The host of each server; None if the greedy finds none."""
    state = _State(instance)
    all_kinds = kinds(instance)
    near = {n for n, group in enumerate(instance.groups) if (group.kind, group.level) == ("affinity", "rack")}
    nodes: list = []
    groups: dict[int, list] = collections.defaultdict(list)
    for kind in all_kinds:
        amounts = kind.needs(instance)
        weight = sum(state.weights[name] * amount for name, amount in amounts.items())
        inside = near & kind.groups
        for bundle in kind.bundles:
            item = (weight, kind, bundle)
            groups[min(inside)].append(item) if inside else nodes.append((weight, [item], False))
    for items in groups.values():
        nodes.append((sum(item[0] for item in items), items, True))
    nodes.sort(key=lambda node: -node[0])
    for _, items, is_group in nodes:
        hosts = range(len(instance.hosts))
        if is_group:
            found = _in_a_rack(state, sorted(items, key=lambda item: -item[0]))
        else:
            found = _one(state, items[0], hosts)
        if found is None:
            return None
        state = found
    return state.placement


def _one(state: _State, item, hosts) -> _State | None:
    _, kind, bundle = item
    best = None
    for host in hosts:
        if not state.allows(kind, host):
            continue
        draws = state.draws(kind, host)
        if draws is None:
            continue
        left = state.left(host)
        if best is None or left < best[0]:
            best = (left, host, draws)
    if best is None:
        return None
    state.put(kind, bundle, best[1], best[2])
    return state


def _in_a_rack(state: _State, items) -> _State | None:
    racks = collections.defaultdict(list)
    for host, it in enumerate(state.instance.hosts):
        racks[it.rack].append(host)
    for hosts in sorted(racks.values(), key=lambda hosts: sum(state.left(host) for host in hosts)):
        trial: _State | None = state.copy()
        for item in items:
            trial = _one(trial, item, hosts) if trial else None
        if trial:
            return trial
    return None
