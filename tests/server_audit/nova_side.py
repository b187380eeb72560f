"""nova's side of a cloud: databases made by nova's migrations, rows made by its objects.

Run by itself, because nova's configuration is one for each process:

    nova_side.py CONFIG make CLOUD.json    creates the tables and fills them
    nova_side.py CONFIG audit              what `nova-manage placement audit --verbose` does
    nova_side.py CONFIG heal               what `nova-manage placement heal_allocations --dry-run` does

CONFIG is a nova.conf. The exit code is that of nova-manage.
"""

import datetime
import json
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")

import sqlalchemy  # noqa: E402
from nova import conf, config, context, objects, rpc  # noqa: E402,F401
from nova.cmd import manage  # noqa: E402
from nova.db import migration  # noqa: E402
from nova.db.api import api as api_database  # noqa: E402
from nova.db.main import api as main_database  # noqa: E402
from oslo_utils import uuidutils  # noqa: E402

LONG_AGO = datetime.datetime(2026, 1, 2, 3, 4, 5)
CELL = "00000000-0000-4000-8000-00000000ce11"


def make(cloud: dict) -> None:
    migration.db_sync(database="main")
    migration.db_sync(database="api")
    admin = context.get_admin_context()
    cell = objects.CellMapping(
        admin, uuid=CELL, name="cell1", transport_url="none:///",
        database_connection=conf.CONF.database.connection,
    )  # fmt: skip
    cell.create()
    nodes = {node["name"]: make_node(admin, node, cell) for node in cloud["nodes"]}
    for server in cloud["servers"]:
        make_server(admin, server, cell, nodes)
    for each in cloud["migrations"]:
        made = objects.Migration(
            admin, uuid=each["uuid"], instance_uuid=each["server"], status=each["status"],
            migration_type=each["kind"], source_compute=f"compute-{each['source']}",
            source_node=each["source"], dest_compute=f"compute-{each['target']}", dest_node=each["target"],
            dest_compute_id=nodes[each["target"]],
        )  # fmt: skip
        made.create()
    # Nothing of this is recent, unless it is to be.
    engine = sqlalchemy.create_engine(conf.CONF.database.connection)
    with engine.begin() as connection:
        for table in ("instances", "migrations", "compute_nodes"):
            statement = f"update {table} set created_at = :at, updated_at = null"
            connection.execute(sqlalchemy.text(statement), {"at": LONG_AGO})
        statement = "update instances set deleted_at = :at where deleted <> 0"
        connection.execute(sqlalchemy.text(statement), {"at": LONG_AGO})
        for server in cloud["servers"]:
            if server.get("archived"):
                archive(connection, server["uuid"])


def make_node(admin, node: dict, cell) -> int:
    host = f"compute-{node['name']}"
    if node.get("service", True):
        service = objects.Service(
            admin, host=host, binary="nova-compute", topic="compute", report_count=1, disabled=False,
        )  # fmt: skip
        service.create()
    objects.HostMapping(admin, host=host, cell_mapping=cell).create()
    made = objects.ComputeNode(
        admin, uuid=node["uuid"], host=host, hypervisor_hostname=node["name"], vcpus=64, memory_mb=65536,
        local_gb=1000, vcpus_used=0, memory_mb_used=0, local_gb_used=0, hypervisor_type="QEMU",
        hypervisor_version=1, cpu_info="",
    )  # fmt: skip
    made.create()
    if node.get("deleted"):
        made.destroy()
    return made.id


def make_server(admin, server: dict, cell, nodes: dict[str, int]) -> None:
    flavor = objects.Flavor(
        id=1, name="m1", flavorid="m1", vcpus=2, memory_mb=512, root_gb=10, ephemeral_gb=0, swap=0,
        vcpu_weight=0, rxtx_factor=1.0, extra_specs=server.get("extra_specs", {}), disabled=False,
        is_public=True,
    )  # fmt: skip
    node = server.get("node")
    user = context.RequestContext(server.get("user", "user-1"), server.get("project", "project-1"))
    user.is_admin = True
    made = objects.Instance(
        user, uuid=server["uuid"], user_id=user.user_id, project_id=user.project_id, flavor=flavor,
        host=f"compute-{node}" if node else None, node=node, vm_state=server.get("vm_state", "active"),
        task_state=server.get("task_state"), image_ref="image-1", display_name="x",
        # One that is lost has the number of none.
        compute_id=nodes.get(node, 999) if node else None,
    )  # fmt: skip
    made.create()
    mapping = objects.InstanceMapping(
        user, instance_uuid=server["uuid"], cell_mapping=cell, project_id=user.project_id,
        user_id=user.user_id, queued_for_delete=bool(server.get("deleted")),
    )  # fmt: skip
    mapping.create()
    root = objects.BlockDeviceMapping(
        user, instance_uuid=server["uuid"], source_type="image", boot_index=0, device_name="/dev/vda",
        destination_type="volume" if server.get("volume") else "local", image_id="image-1", tag=None,
        device_type="disk", uuid=uuidutils.generate_uuid(),
    )  # fmt: skip
    root.create()
    if server.get("deleted"):
        made.destroy()
        mapping.destroy()


def archive(connection, uuid: str) -> None:
    """What `nova-manage db archive_deleted_rows` does with the row of a server."""
    text = sqlalchemy.text
    columns = connection.execute(text("select * from shadow_instances where 1 = 0")).keys()
    # Some of the names are words of SQL.
    names = ", ".join(name for name in columns if name in ("id", "uuid", "deleted_at", "deleted", "created_at"))
    where = {"uuid": uuid}
    statement = f"insert into shadow_instances ({names}) select {names} from instances where uuid = :uuid"
    connection.execute(text(statement), where)
    for table in ("block_device_mapping", "instance_extra", "instance_info_caches", "instance_system_metadata"):
        connection.execute(text(f"delete from {table} where instance_uuid = :uuid"), where)
    connection.execute(text("delete from instances where uuid = :uuid"), where)


def main() -> int:
    configuration, what, *rest = sys.argv[1:]
    config.parse_args(["nova", "--config-file", configuration])
    main_database.configure(conf.CONF)
    api_database.configure(conf.CONF)
    objects.register_all()
    if what == "make":
        make(json.loads(pathlib.Path(rest[0]).read_text()))
        return 0
    if what == "audit":
        return manage.PlacementCommands().audit(verbose=True)
    return manage.PlacementCommands().heal_allocations(
        verbose=True, dry_run=True, skip_port_allocations=True
    )


if __name__ == "__main__":
    sys.exit(main())
