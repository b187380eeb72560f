"""How long it takes to compare, and to import over the API, a large cloud; and how much memory."""

import os
import subprocess
import tempfile
import time

import sqlalchemy
from harness.commands import berth, serving
from harness.servers import Berth, Reference, _environment, find_berth


CLASSES = "('VCPU', 'MEMORY_MB', 'DISK_GB')"


def measure(hosts: int, instances: int, consumers: str) -> int:
    """Fill a database, import it twice, and compare the two servers; then import one over the API."""
    with Berth() as own, tempfile.TemporaryDirectory(prefix="compare-") as folder:
        source = f"sqlite:///{folder}/placement.sqlite"
        with Reference(source).start("compare-measure"):
            pass
        fill(source, hosts, instances)
        urls = []
        for name in ("left", "right", "api"):
            own._cluster.create(name, "berth_template")
            urls.append(own._cluster.url(name))
        for url in urls[:2]:
            done = berth("import", "--from-database", source, "--database-url", url, within=3600)
            assert done.returncode == 0, done.stderr
        with serving("compare-left", urls[0]) as left, serving("compare-right", urls[1]) as right:
            code = timed("compare", left.url, right.url, "--consumers", consumers)
            return code or timed("import", "--from-api", left.url, "--database-url", urls[2])


def timed(*arguments: str) -> int:
    """Run `berth`, and print what it says, how long it took and how much memory."""
    began = time.monotonic()
    process = subprocess.Popen([str(find_berth()), *arguments], env=_environment())
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    took = time.monotonic() - began
    print(f"{arguments[0]}: exit code {code}, {took:.1f} s, {usage.ru_maxrss // 1024} MiB", flush=True)
    return code


def fill(source: str, hosts: int, instances: int) -> None:
    engine = sqlalchemy.create_engine(source)
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < {})"
    spelled = "printf('{}-0000-4000-8000-%012x', i)"
    host, instance = spelled.format("0000000a"), spelled.format("0000000b")
    of_hosts, of_instances = numbers.format(hosts), numbers.format(instances)
    with engine.begin() as connection:
        query = sqlalchemy.text(f"select id from resource_classes where name in {CLASSES}")
        classes = connection.execute(query).scalars().all()
        statements = [
            f"insert into projects (id, external_id) {numbers.format(100)} select i, 'project-' || i from n",
            f"insert into users (id, external_id) {numbers.format(100)} select i, 'user-' || i from n",
            "insert into resource_providers (id, uuid, name, generation, root_provider_id, created_at) "
            f"{of_hosts} select i, {host}, 'host-' || i, 40, i, '2026-01-02 03:04:05' from n",
            "insert into consumers (id, uuid, project_id, user_id, generation) "
            f"{of_instances} select i, {instance}, i % 100 + 1, i % 100 + 1, 1 from n",
        ]
        for each in classes:
            statements += [
                "insert into inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, "
                f"max_unit, step_size, allocation_ratio, created_at) {of_hosts} "
                f"select i, {each}, 100000, 0, 1, 100000, 1, 1.0, '2026-01-02 03:04:05' from n",
                "insert into allocations (resource_provider_id, consumer_id, resource_class_id, used, created_at) "
                f"{of_instances} select i % {hosts} + 1, {instance}, {each}, 4, '2026-01-02 03:04:05' from n",
            ]
        for statement in statements:
            connection.execute(sqlalchemy.text(statement))
    engine.dispose()
