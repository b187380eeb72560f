"""Queries of the two routes that search: providers and allocation candidates."""

from cloud import Cloud


def resources(cloud: Cloud, most: int = 2) -> str:
    classes = sorted({cloud.any_class() for _ in range(cloud.rng.randint(1, most))})
    cloud.rng.shuffle(classes)
    return ",".join(f"{name}:{cloud.pick([1, 1, 1, 2, 3, 4, 10, 1000])}" for name in classes)


def required(cloud: Cloud, minor: int, any_of: int, forbidden: int) -> str:
    """A value of `required`; the last two are the versions that brought its forms."""
    if minor >= any_of and cloud.chance(0.3):
        return "in:" + ",".join(cloud.any_trait() for _ in range(cloud.rng.randint(1, 3)))
    mark = "!" if minor >= forbidden else ""
    names = [cloud.any_trait() for _ in range(cloud.pick([1, 1, 2]))]
    return ",".join((mark if cloud.chance(0.3) else "") + name for name in names)


def member_of(cloud: Cloud, minor: int, lists: int) -> str:
    mark = "!" if minor >= 32 and cloud.chance(0.3) else ""
    if minor >= lists and cloud.chance(0.4):
        uuids = ",".join(cloud.any_aggregate() for _ in range(cloud.rng.randint(1, 3)))
        return f"{mark}in:{uuids}"
    return mark + cloud.any_aggregate()


def providers_query(cloud: Cloud, minor: int) -> list[tuple[str, str]]:
    query = []
    if cloud.chance(0.15):
        known = [provider.name for provider in cloud.providers.values()]
        query.append(("name", cloud.pick([*known, "nobody"])))
    if cloud.chance(0.15):
        query.append(("uuid", cloud.any_provider()))
    if minor >= 3 and cloud.chance(0.4):
        for _ in range(cloud.pick([1, 1, 2])):
            query.append(("member_of", member_of(cloud, minor, 3)))
    if minor >= 4 and cloud.chance(0.4):
        query.append(("resources", resources(cloud)))
    if minor >= 14 and cloud.chance(0.25):
        query.append(("in_tree", cloud.any_provider()))
    if minor >= 18 and cloud.chance(0.4):
        for _ in range(cloud.pick([1, 1, 1, 2])):
            query.append(("required", required(cloud, minor, 39, 22)))
    cloud.rng.shuffle(query)
    return query


def group(cloud: Cloud, minor: int, suffix: str, most: int) -> list[tuple[str, str]]:
    query = [(f"resources{suffix}", resources(cloud, most))]
    if minor >= 36 and suffix and cloud.chance(0.2):
        # A group without resources.
        query = []
    if minor >= 17 and cloud.chance(0.35):
        for _ in range(cloud.pick([1, 1, 1, 2])):
            query.append((f"required{suffix}", required(cloud, minor, 39, 22)))
    if minor >= 21 and cloud.chance(0.3):
        for _ in range(cloud.pick([1, 1, 1, 2])):
            query.append((f"member_of{suffix}", member_of(cloud, minor, 21)))
    if minor >= 31 and cloud.chance(0.12):
        query.append((f"in_tree{suffix}", cloud.any_provider()))
    return query


def suffixes(cloud: Cloud, minor: int) -> list[str]:
    if minor < 25:
        return [""]
    names = ["1", "2", "3"] if minor < 33 else ["1", "_A", "_B", "-c"]
    chosen = cloud.some(names, 0, cloud.pick([1, 2, 3]))
    if cloud.chance(0.7) or not chosen:
        chosen.append("")
    return chosen


def candidates_query(cloud: Cloud, minor: int) -> list[tuple[str, str]]:
    chosen = suffixes(cloud, minor)
    most = 2 if len(chosen) < 3 else 1
    groups = [group(cloud, minor, suffix, most) for suffix in chosen]
    query = [pair for pairs in groups for pair in pairs]
    suffixed = [suffix for suffix in chosen if suffix]
    if minor >= 25 and (len(suffixed) > 1 or cloud.chance(0.1)) and cloud.chance(0.97):
        query.append(("group_policy", cloud.pick(["none", "isolate"])))
    if minor >= 16 and cloud.chance(0.2):
        query.append(("limit", cloud.pick(["1", "2", "3", "5", "1000"])))
    if minor >= 35 and cloud.chance(0.15):
        query.append(("root_required", required(cloud, minor, 99, 22)))
    if minor >= 36 and suffixed:
        resourceless = [s for s in suffixed if f"resources{s}" not in dict(query)]
        if resourceless or cloud.chance(0.25):
            members = sorted({*resourceless, *cloud.some(suffixed, 1, 3)})
            query.append(("same_subtree", ",".join(members)))
    if cloud.chance(0.3):
        cloud.rng.shuffle(query)
    return query
