"""How long an import takes, and what following costs the old database."""

import time

import sqlalchemy

import sources
from following import Follower
from moving_case import Berth, Reference, berth


def measure(hosts: int, instances: int) -> int:
    """Import a large cloud from MariaDB, print the report, check the result, and follow it."""
    with sources.mariadb() as source, Berth() as own:
        with Reference(source).start("moving-measure"):
            pass
        engine = sqlalchemy.create_engine(source)
        fill(engine, hosts, instances)
        own._cluster.create("measured", "berth_template")
        url = own._cluster.url("measured")
        done = berth("import", "--from-database", source, "--database-url", url)
        print(done.stdout, done.stderr, sep="")
        audit = berth("db", "check", "--database-url", url)
        print(audit.stdout, end="", flush=True)
        own._cluster.drop("measured")
        followed = follow(own, source, engine)
        engine.dispose()
        return done.returncode or audit.returncode or followed


def fill(engine: sqlalchemy.Engine, hosts: int, instances: int) -> None:
    """Fill a database of the reference: three inventories for each host, three allocations for each instance."""
    spelled = "concat('{}-0000-4000-8000-', lpad(lower(hex(seq)), 12, '0'))"
    host, instance = spelled.format("0000000a"), spelled.format("0000000b")
    with engine.begin() as connection:
        names = "('VCPU', 'MEMORY_MB', 'DISK_GB')"
        query = sqlalchemy.text(f"select id from resource_classes where name in {names}")
        classes = connection.execute(query).scalars().all()
        # MariaDB makes tables seq_1_to_N up.
        of_hosts, of_instances = f"seq_1_to_{hosts}", f"seq_1_to_{instances}"
        statements = [
            "insert into projects (id, external_id) select seq, concat('project-', seq) from seq_1_to_100",
            "insert into users (id, external_id) select seq, concat('user-', seq) from seq_1_to_100",
            "insert into resource_providers (id, uuid, name, generation, root_provider_id, created_at) "
            f"select seq, {host}, concat('host-', seq), 40, seq, now() from {of_hosts}",
            "insert into consumers (id, uuid, project_id, user_id, generation) "
            f"select seq, {instance}, seq % 100 + 1, seq % 100 + 1, 1 from {of_instances}",
        ]
        for each in classes:
            statements += [
                "insert into inventories (resource_provider_id, resource_class_id, total, reserved, "
                "min_unit, max_unit, step_size, allocation_ratio, created_at) "
                f"select seq, {each}, 100000, 0, 1, 100000, 1, 1.0, now() from {of_hosts}",
                "insert into allocations (resource_provider_id, consumer_id, resource_class_id, used, "
                f"created_at) select seq % {hosts} + 1, {instance}, {each}, 4, now() from {of_instances}",
            ]
        for statement in statements:
            connection.execute(sqlalchemy.text(statement))


def follow(own: Berth, source: str, engine: sqlalchemy.Engine) -> int:
    """Print how long rounds take in which nothing, something and much changes, and how long the end takes."""
    own._cluster.create("followed", "berth_template")
    url = own._cluster.url("followed")
    follower = Follower(source, url)

    def read() -> int:
        """The rows that MariaDB has read since it was started."""
        with engine.begin() as connection:
            shown = connection.execute(sqlalchemy.text("show global status like 'Rows_read'"))
            return int(shown.one()[1])

    follower.until(lambda: "round 1:" in follower.output, "a first round")
    before = read()
    time.sleep(60)
    print(f"rows that MariaDB read in a minute: {read() - before}")
    changes = {
        "100 instances go, 100 hosts are updated": [
            "create temporary table gone as select uuid from consumers where id % 2000 = 0",
            "delete from allocations where consumer_id in (select uuid from gone)",
            "delete from consumers where uuid in (select uuid from gone)",
            "update resource_providers set generation = generation + 1 where id % 100 = 0",
            "drop temporary table gone",
        ],
        "every host is updated": ["update resource_providers set generation = generation + 1"],
    }
    for what, statements in changes.items():
        lines = len(follower.lines)
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))
        follower.until(lambda: any("changed nothing" not in line for line in follower.lines[lines:]), what)
        print(f"{what}:")
    done = berth("import", "--from-database", source, "--database-url", url, "--finish")
    code = follower.ended()
    print(follower.output, done.stdout, done.stderr, sep="\n")
    return code or done.returncode
