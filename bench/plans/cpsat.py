"""CP-SAT: a model of the same problem, with the same lexicographic cost.

Equal bundles are not told apart: a variable counts the bundles of a kind on a host. Of the pools that can
supply a class (NUMA nodes), the servers of a flavor choose by number as well. The search begins with the
greedy's placement as a hint.
"""

import collections
import dataclasses
import time

from ortools.sat.python import cp_model

import cost
from instances import Group, Instance
from model import Kind, kinds


@dataclasses.dataclass
class Result:
    placement: list[int] | None
    bound: tuple[int, ...] | None
    proven: bool
    impossible: bool
    # Seconds until the first placement, and in all.
    first: float | None
    took: float


class Model:
    """The variables and constraints of an instance."""

    def __init__(self, instance: Instance, hosts: set[int]) -> None:
        self.instance = instance
        self.hosts = sorted(hosts)
        self.kinds = kinds(instance)
        self.cp = cp_model.CpModel()
        # The number of bundles of each kind on each host where one fits.
        self.on: dict[tuple[int, int], cp_model.IntVar] = {}
        self.most: dict[tuple[int, int], int] = {}
        self.on_host: dict[int, list[int]] = collections.defaultdict(list)
        self.new_hosts: dict = {}
        for k, kind in enumerate(self.kinds):
            self._place(k, kind)
        self._capacity()
        self._groups()
        self._used()
        servers_on = {
            host: [(self.on[k, host], self.kinds[k].flavors.total()) for k in here]
            for host, here in self.on_host.items()
        }
        variables = cost.Variables(servers_on, self.new_hosts.get)
        self.cp.minimize(cost.objective(instance, variables))

    def _place(self, k: int, kind: Kind) -> None:
        instance, groups = self.instance, [self.instance.groups[g] for g in kind.groups]
        is_alone = any(group.kind == "exclusivity" for group in groups)
        is_apart = any(group.is_apart for group in groups)
        amounts = kind.needs(instance)
        for h in self.hosts:
            host = instance.hosts[h]
            if is_alone and host.in_use or not all(instance.fits(h, flavor) for flavor in kind.flavors):
                continue
            most = min(
                sum(instance.pools[pool].free for pool in host.pools[name]) // amount
                for name, amount in amounts.items()
            )
            most = min(most, len(kind.bundles), 1 if is_apart else most)
            if most > 0:
                self.on[k, h] = self.cp.new_int_var(0, most, "")
                self.most[k, h] = most
                self.on_host[h].append(k)
        self.cp.add(sum(self.on[k, h] for h in self._hosts(k)) == len(kind.bundles))

    def _hosts(self, k: int) -> list[int]:
        return [h for h in self.hosts if (k, h) in self.on]

    def _capacity(self) -> None:
        instance, pools = self.instance, collections.defaultdict(list)
        for h, here in self.on_host.items():
            counts: dict[str, list] = collections.defaultdict(list)
            most: collections.Counter = collections.Counter()
            for k in here:
                for flavor, count in self.kinds[k].flavors.items():
                    counts[flavor].append(count * self.on[k, h])
                    most[flavor] += count * len(self.kinds[k].bundles)
            for name in instance.classes:
                choices = instance.hosts[h].pools[name]
                for flavor, terms in counts.items():
                    amount = instance.needs[flavor][name]
                    if len(choices) == 1:
                        pools[choices[0]].append(amount * sum(terms))
                        continue
                    parts = []
                    for pool in choices:
                        fit = min(instance.pools[pool].free // amount, most[flavor])
                        part = self.cp.new_int_var(0, fit, "")
                        parts.append(part)
                        pools[pool].append(amount * part)
                    self.cp.add(sum(parts) == sum(terms))
        for pool, draws in pools.items():
            self.cp.add(sum(draws) <= instance.pools[pool].free)

    def _groups(self) -> None:
        for number, group in enumerate(self.instance.groups):
            bound = [k for k, kind in enumerate(self.kinds) if number in kind.groups]
            if group.kind == "diversity":
                units = collections.defaultdict(list)
                for k in bound:
                    for h in self._hosts(k):
                        units[h if group.level == "host" else self.instance.hosts[h].rack].append(self.on[k, h])
                if group.skew is not None:
                    self._even(group, units)
                    continue
                for terms in units.values():
                    if group.level == "host" and group.most == 1:
                        self.cp.add_at_most_one(terms)
                    else:
                        self.cp.add(sum(terms) <= group.most)
            elif group.kind == "affinity" and group.level == "rack":
                self._near(bound)
            elif group.kind == "exclusivity":
                self._alone(bound)

    def _even(self, group: Group, units: dict[int, list]) -> None:
        least = self.cp.new_int_var(0, len(group.servers), "")
        domains = self.instance.domains(group)
        for domain in domains:
            self.cp.add(sum(units.get(domain, [])) >= least)
            self.cp.add(sum(units.get(domain, [])) <= least + group.skew)

    def _near(self, bound: list[int]) -> None:
        racks = sorted({self.instance.hosts[h].rack for k in bound for h in self._hosts(k)})
        chosen = {rack: self.cp.new_bool_var("") for rack in racks}
        self.cp.add_exactly_one(chosen.values())
        for k in bound:
            count = len(self.kinds[k].bundles)
            units = collections.defaultdict(list)
            for h in self._hosts(k):
                units[self.instance.hosts[h].rack].append(self.on[k, h])
            for rack in racks:
                self.cp.add(sum(units.get(rack, [])) == count * chosen[rack])

    def _alone(self, bound: list[int]) -> None:
        for h, here in self.on_host.items():
            members = [k for k in here if k in bound]
            if not members:
                continue
            is_taken = self.cp.new_bool_var("")
            for k in here:
                of_group = is_taken if k in members else 1 - is_taken
                self.cp.add(self.on[k, h] <= self.most[k, h] * of_group)

    def _used(self) -> None:
        for h, here in self.on_host.items():
            if self.instance.hosts[h].in_use:
                continue
            self.new_hosts[h] = used = self.cp.new_bool_var("")
            for k in here:
                self.cp.add(self.on[k, h] <= self.most[k, h] * used)

    def hint(self, placement: list[int]) -> None:
        """Begin with a placement."""
        counts = collections.Counter(
            (k, placement[bundle[0]]) for k, kind in enumerate(self.kinds) for bundle in kind.bundles
        )
        for key, variable in self.on.items():
            self.cp.add_hint(variable, counts.get(key, 0))
        used = set(placement)
        for h, variable in self.new_hosts.items():
            self.cp.add_hint(variable, int(h in used))

    def placement(self, value) -> list[int]:
        """The host of each server."""
        hosts = [-1] * len(self.instance.servers)
        for k, kind in enumerate(self.kinds):
            bundles = iter(kind.bundles)
            for h in self._hosts(k):
                for _ in range(value(self.on[k, h])):
                    for server in next(bundles):
                        hosts[server] = h
        return hosts


class _Watch(cp_model.CpSolverSolutionCallback):
    """Notes when the first placement was found."""

    def __init__(self) -> None:
        super().__init__()
        self.first: float | None = None

    def on_solution_callback(self) -> None:
        if self.first is None:
            self.first = self.wall_time


# The hosts of the smaller model.
FEW = 400


def solve(
    instance: Instance, seconds: float, workers: int, hint: list[int] | None, few: bool = False
) -> Result | None:
    """CP-SAT's answer, on all hosts or on those that look best; None if these are all hosts.

    Its time begins when the model is complete.
    """
    hosts = range(len(instance.hosts))
    if few:
        hosts = _best_hosts(instance, hint)
        if len(hosts) == len(instance.hosts):
            return None
        hint = hint if hint is None or set(hint) <= hosts else None
    model = Model(instance, set(hosts))
    if hint is not None:
        model.hint(hint)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    watch = _Watch()
    began = time.monotonic()
    status = solver.solve(model.cp, watch)
    took = time.monotonic() - began
    if status == cp_model.INFEASIBLE:
        return Result(None, None, True, True, None, took)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Result(None, None, False, False, None, took)
    bound = cost.decode(instance, solver.best_objective_bound)
    placement = model.placement(solver.value)
    return Result(placement, bound, status == cp_model.OPTIMAL, False, watch.first, took)


def _best_hosts(instance: Instance, hint: list[int] | None) -> set[int]:
    """The hosts of the racks with the most capacity on hosts in use, and those of the greedy."""
    racks = collections.defaultdict(list)
    for h, host in enumerate(instance.hosts):
        racks[host.rack].append(h)

    def offers(hosts: list[int]) -> int:
        in_use = [h for h in hosts if instance.hosts[h].in_use and instance.is_candidate(h)]
        return sum(instance.own_free(h, "VCPU") for h in in_use)

    chosen = set(hint or [])
    for hosts in sorted(racks.values(), key=offers, reverse=True):
        if len(chosen | set(hosts)) > max(FEW, len(set(hint or []))):
            break
        chosen |= set(hosts)
    return chosen
