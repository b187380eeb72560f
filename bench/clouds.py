"""The clouds that are measured: made by SQL, the same for both servers.

A cloud is first written down in neutral tables (see TABLES), keyed by names and UUIDs, then adopted
into the tables of each server (adopt-berth.sql, adopt-reference.sql).
"""

import dataclasses
import pathlib

HERE = pathlib.Path(__file__).resolve().parent

TABLES = """
create schema cloud;
set search_path = cloud, public;
create table provider (id int primary key, uuid uuid, name text, parent int, root int);
create table stock (provider int, class text, total int, reserved int default 0, min_unit int default 1,
                    max_unit int, step_size int default 1, ratio float8 default 1);
create table quality (provider int, trait text);
create table member (provider int, aggregate int);
create table holding (consumer int, provider int, class text, used int);
-- UUIDs are functions of a kind and a number, so that requests can be written without asking.
create function id_of(kind int, number int) returns uuid immutable language sql as
    $$ select (lpad(to_hex(kind), 8, '0') || '-0000-4000-8000-'
               || lpad(to_hex(number), 12, '0'))::uuid $$;
"""

# Kinds of UUIDs.
PROVIDER, AGGREGATE, CONSUMER = 1, 2, 3


def uuid_of(kind: int, number: int) -> str:
    """The UUID that SQL's id_of gives."""
    return f"{kind:08x}-0000-4000-8000-{number:012x}"


@dataclasses.dataclass(frozen=True)
class Cloud:
    """A data set: what it is called and the statements that fill the neutral tables."""

    name: str
    providers: int
    sql: str


def flat(count: int, consumers: int = 0) -> Cloud:
    """Hosts without children, as cdent's placeload makes them.

    Each is in one to three of three aggregates and has up to four traits. Consumer n holds one
    VCPU, 128 MB and 5 GB of host n modulo the number of hosts.
    """
    hosts = f"generate_series(1, {count}) as n"
    holds = "(values ('VCPU', 1), ('MEMORY_MB', 128), ('DISK_GB', 5)) as h (class, used)"
    sql = f"""
    insert into provider select n, id_of({PROVIDER}, n), 'host-' || n, null, n from {hosts};
    insert into stock select n, 'VCPU', 32, 0, 1, 16, 1, 16 from {hosts};
    insert into stock select n, 'MEMORY_MB', 8192, 0, 128, 8192, 1, 1 from {hosts};
    insert into stock select n, 'DISK_GB', 8192, 0, 5, 8192, 1, 1 from {hosts};
    insert into quality select n, 'HW_CPU_X86_AVX2' from {hosts};
    insert into quality select n, 'HW_CPU_X86_SSE2' from {hosts};
    insert into quality select n, 'STORAGE_DISK_SSD' from {hosts} where n % 2 = 0;
    insert into quality select n, 'CUSTOM_GOLD' from {hosts} where n % 10 = 0;
    insert into member select n, a from {hosts}, generate_series(1, 1 + n % 3) as a;
    insert into holding select c, 1 + c % {count}, class, used
        from generate_series(1, {consumers}) as c, {holds};
    """
    return Cloud(_name("flat", count) + ("-held" if consumers else ""), count, sql)


def nested(trees: int) -> Cloud:
    """Trees of seven: a root with disk, two NUMA nodes, an FPGA, a PGPU and two more FPGAs.

    As gate/gabbits/nested-perfload.yaml of openstack/placement describes them.
    """
    roots = f"generate_series(0, {trees - 1}) as t"
    members = """(values (1, 'root', null), (2, 'numa0', 1), (3, 'numa1', 1), (4, 'fpga0', 2),
                         (5, 'pgpu0', 3), (6, 'fpga1_0', 3), (7, 'fpga1_1', 3))
                 as m (place, name, parent)"""
    stocks = """(values (1, 'DISK_GB', 2048, 512, 5, 2048, 1), (2, 'VCPU', 4, 2, 1, 4, 1),
                        (2, 'MEMORY_MB', 4096, 0, 512, 4096, 256), (3, 'VCPU', 4, 0, 1, 4, 1),
                        (3, 'MEMORY_MB', 4096, 0, 256, 1024, 1), (4, 'FPGA', 1, 0, 1, 1, 1),
                        (5, 'VGPU', 8, 0, 1, 8, 1), (6, 'FPGA', 1, 0, 1, 1, 1),
                        (7, 'FPGA', 1, 0, 1, 1, 1))
                as s (place, class, total, reserved, min_unit, max_unit, step_size)"""
    traits = """(values (1, 'COMPUTE_VOLUME_MULTI_ATTACH'), (3, 'CUSTOM_FOO'),
                        (3, 'HW_CPU_X86_AVX2'), (2, 'HW_CPU_X86_AVX2'),
                        (4, 'CUSTOM_FPGA'), (6, 'CUSTOM_FPGA'), (7, 'CUSTOM_FPGA'))
                as q (place, trait)"""
    sql = f"""
    insert into provider
        select t * 7 + place, id_of({PROVIDER}, t * 7 + place), 'tree-' || t || '-' || name,
               t * 7 + parent, t * 7 + 1
        from {roots}, {members} order by 1;
    insert into stock select t * 7 + place, class, total, reserved, min_unit, max_unit, step_size, 1
        from {roots}, {stocks};
    insert into quality select t * 7 + place, trait from {roots}, {traits};
    insert into member select t * 7 + 1, 1 from {roots};
    """
    return Cloud(_name("nested", trees), trees * 7, sql)


def wide(devices: int = 8) -> Cloud:
    """One host with devices of one unit each."""
    sql = f"""
    insert into provider values (1, id_of({PROVIDER}, 1), 'host', null, 1);
    insert into provider select n, id_of({PROVIDER}, n), 'device-' || n, 1, 1
        from generate_series(2, {devices + 1}) as n;
    insert into stock select n, 'VGPU', 1, 0, 1, 1, 1, 1 from generate_series(2, {devices + 1}) as n;
    """
    return Cloud("wide", devices + 1, sql)


def pool(hosts: int) -> Cloud:
    """Hosts that all take their disk from one sharing provider, the last one."""
    last = hosts + 1
    numbers = f"generate_series(1, {hosts}) as n"
    sql = f"""
    insert into provider select n, id_of({PROVIDER}, n), 'host-' || n, null, n from {numbers};
    insert into provider values ({last}, id_of({PROVIDER}, {last}), 'pool', null, {last});
    insert into stock select n, 'VCPU', 32, 0, 1, 16, 1, 1000 from {numbers};
    insert into stock values ({last}, 'DISK_GB', 2000000000, 0, 1, 1000000, 1, 1);
    insert into quality values ({last}, 'MISC_SHARES_VIA_AGGREGATE');
    insert into member select n, 1 from generate_series(1, {last}) as n;
    """
    return Cloud("pool", last, sql)


def pairs(trees: int) -> Cloud:
    """Roots with one empty child each, and a consumer on each root: what a reshape begins with.

    Root n is provider 2n - 1, its child 2n, its consumer n.
    """
    numbers = f"generate_series(1, {trees}) as n"
    sql = f"""
    insert into provider
        select 2 * n - 1 + c, id_of({PROVIDER}, 2 * n - 1 + c), 'node-' || n || '-' || c,
               case c when 1 then 2 * n - 1 end, 2 * n - 1
        from {numbers}, generate_series(0, 1) as c order by 1;
    insert into stock select 2 * n - 1, 'VCPU', 32, 0, 1, 16, 1, 1 from {numbers};
    insert into stock select 2 * n - 1, 'VGPU', 8, 0, 1, 8, 1, 1 from {numbers};
    insert into holding select n, 2 * n - 1, 'VGPU', 2 from {numbers};
    """
    return Cloud("pairs", 2 * trees, sql)


def statements(cloud: Cloud, server: str) -> str:
    """Everything that brings the cloud into the empty, migrated database of a server."""
    adopt = (HERE / f"adopt-{server}.sql").read_text()
    return f"{TABLES}{cloud.sql}{adopt}\ndrop schema cloud cascade;\nanalyze;\n"


def _name(kind: str, count: int) -> str:
    if count % 1_000_000 == 0:
        return f"{kind}-{count // 1_000_000}m"
    return f"{kind}-{count // 1000}k"
