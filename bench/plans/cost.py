"""What a plan costs under the policy of plans that name none: the one place that knows the objectives.

Costs are compared lexicographically. Each component is a function of a placement, for checking what a
planner reports, and a linear term with an upper bound, for CP-SAT.
"""

import dataclasses
from collections.abc import Callable

from instances import Instance

# Servers that leave their host are none here: all plans are new.
NAMES = ("moved", "new_hosts", "room")


def fit_costs(instance: Instance) -> list[int]:
    """For each host, what a server there adds to `room`: the free capacity in thousandths, by class."""
    hosts = [h for h in range(len(instance.hosts)) if instance.is_candidate(h)]
    costs = [0] * len(instance.hosts)
    for name in instance.classes:
        free = {h: instance.own_free(h, name) for h in hosts}
        most = max([1, *free.values()])
        for h in hosts:
            costs[h] += free[h] * 1000 // most
    return costs


def of(instance: Instance, placement: list[int]) -> tuple[int, ...]:
    """The cost of a placement, which has a host for each server."""
    used = set(placement)
    new = sum(1 for host in used if not instance.hosts[host].in_use)
    fit = fit_costs(instance)
    return (0, new, sum(fit[host] for host in placement))


@dataclasses.dataclass
class Variables:
    """What a linear objective is made of."""

    # Servers on a host, as a list of (expression, servers of each unit of it).
    servers_on: dict[int, list]
    # Whether a host that was not in use is used.
    new_host: Callable


def objective(instance: Instance, variables: Variables):
    """One linear expression whose order is that of the costs."""
    fit = fit_costs(instance)
    room = sum(
        fit[host] * servers * variable
        for host, terms in variables.servers_on.items()
        for variable, servers in terms
    )
    most_room = max(fit) * len(instance.servers) + 1
    new = [host for host in variables.servers_on if not instance.hosts[host].in_use]
    return most_room * sum(variables.new_host(host) for host in new) + room


def decode(instance: Instance, value: float) -> tuple[int, ...]:
    """The components of a value of the objective, such as CP-SAT's bound, rounded up to an integer."""
    fit = fit_costs(instance)
    most_room = max(fit) * len(instance.servers) + 1
    value = max(0, -int(-value // 1))
    new, room = divmod(value, most_room)
    return (0, new, room)


def shown(cost: tuple[int, ...]) -> str:
    """A cost in a table: its components without the first."""
    return " / ".join(f"{part:,}" for part in cost[1:])
