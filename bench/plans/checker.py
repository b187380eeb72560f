"""Whether a placement keeps every rule of its instance."""

import collections

from instances import Instance


def faults(instance: Instance, placement: list[int]) -> list[str]:
    """What is wrong with a placement: nothing, if it is one."""
    found = []
    if any(host < 0 for host in placement):
        found.append("a server has no host")
    on_host = collections.defaultdict(list)
    for server, host in enumerate(placement):
        on_host[host].append(server)
    shared: collections.Counter = collections.Counter()
    for host, servers in on_host.items():
        pools = instance.hosts[host].pools
        for name in instance.classes:
            amounts = sorted((instance.needs[instance.servers[s]][name] for s in servers), reverse=True)
            if len(pools[name]) == 1:
                shared[pools[name][0]] += sum(amounts)
            elif not _packs(amounts, [instance.pools[pool].free for pool in pools[name]]):
                found.append(f"{name} of {instance.hosts[host].name}")
    found += [
        f"{instance.pools[pool].name} of pool {pool}"
        for pool, amount in shared.items()
        if amount > instance.pools[pool].free
    ]
    for number, group in enumerate(instance.groups):
        units = [
            placement[s] if group.level == "host" else instance.hosts[placement[s]].rack for s in group.servers
        ]
        counts = collections.Counter(units)
        if group.skew is not None:
            domains = instance.domains(group)
            in_domains = [counts[domain] for domain in domains]
            if set(units) - domains or max(in_domains) - min(in_domains) > group.skew:
                found.append(f"group {number} is not even")
        elif group.kind == "diversity" and max(counts.values()) > group.most:
            found.append(f"group {number} has more than {group.most} in a {group.level}")
        if group.kind == "affinity" and len(set(units)) > 1:
            found.append(f"group {number} is not together")
        if group.kind == "exclusivity":
            others = {h for s, h in enumerate(placement) if s not in group.servers}
            if others & set(units) or any(instance.hosts[h].in_use for h in units):
                found.append(f"group {number} is not alone")
    return found


def _packs(amounts: list[int], free: list[int]) -> bool:
    """Whether amounts, the largest first, fit into these pools."""
    states = {tuple(sorted(free))}
    for amount in amounts:
        states = {
            tuple(sorted([*state[:n], state[n] - amount, *state[n + 1 :]]))
            for state in states
            for n in range(len(state))
            if state[n] >= amount
        }
    return bool(states)
