"""What both CP-SAT's model and the greedy start from: kinds of interchangeable bundles."""

import collections
import dataclasses

from instances import Instance


@dataclasses.dataclass
class Kind:
    """Bundles that are the same: servers that affinity binds to one host, and their groups."""

    flavors: collections.Counter
    # The groups other than affinity at the level of hosts, by number.
    groups: frozenset[int]
    # For each bundle its servers.
    bundles: list[list[int]]

    def needs(self, instance: Instance) -> dict[str, int]:
        total: collections.Counter = collections.Counter()
        for flavor, count in self.flavors.items():
            for name, amount in instance.needs[flavor].items():
                total[name] += count * amount
        return dict(total)


def kinds(instance: Instance) -> list[Kind]:
    """All kinds of an instance. Affinity groups of hosts do not overlap."""
    bundle_of = {server: [server] for server in range(len(instance.servers))}
    for group in instance.groups:
        if (group.kind, group.level) == ("affinity", "host"):
            for server in group.servers:
                bundle_of[server] = group.servers
    groups_of = collections.defaultdict(set)
    for number, group in enumerate(instance.groups):
        if (group.kind, group.level) != ("affinity", "host"):
            for server in group.servers:
                groups_of[server].add(number)
    found: dict = {}
    for server, bundle in bundle_of.items():
        if server != bundle[0]:
            continue
        flavors = collections.Counter(instance.servers[it] for it in bundle)
        groups = frozenset().union(*(groups_of[it] for it in bundle))
        key = (tuple(sorted(flavors.items())), groups)
        found.setdefault(key, Kind(flavors, groups, [])).bundles.append(bundle)
    return list(found.values())
