"""Nova's own databases, for `nova-manage placement`: the tables, and rows of hosts and instances.

`nova_rows.py CONFIGURATION` makes the tables. With a file of JSON it makes the instances be those that the file has:
`hosts` are UUIDs by name, `instances` are names of hosts by UUID.
"""

import json
import pathlib
import sys

from nova import config, context, objects
from nova.db import migration
from journal import PROJECT, USER


def main() -> None:
    configuration = sys.argv[1]
    config.parse_args(["nova", "--config-file", configuration], default_config_files=[])
    objects.register_all()
    if len(sys.argv) == 2:
        migration.db_sync(database="api")
        migration.db_sync(database="main")
        return
    rows = json.loads(pathlib.Path(sys.argv[2]).read_text())
    admin = context.get_admin_context()
    cells = objects.CellMappingList.get_all(admin)
    if not cells:
        cell = objects.CellMapping(
            admin, uuid="0000000d-0000-4000-8000-000000000001", name="cell1", transport_url="fake://",
            database_connection=config.CONF.database.connection,
        )  # fmt: skip
        cell.create()
        for host, uuid in rows["hosts"].items():
            objects.HostMapping(admin, host=host, cell_mapping=cell).create()
            with context.target_cell(admin, cell) as there:
                objects.ComputeNode(
                    there, uuid=uuid, host=host, hypervisor_hostname=host, vcpus=48, memory_mb=131072, local_gb=2000,
                    vcpus_used=0, memory_mb_used=0, local_gb_used=0, hypervisor_type="QEMU", hypervisor_version=1,
                    cpu_info="{}",
                ).create()  # fmt: skip
        cells = [cell]
    with context.target_cell(admin, cells[0]) as there:
        known = {it.uuid: it for it in objects.InstanceList.get_all(there, expected_attrs=[])}
        for uuid in known.keys() - rows["instances"].keys():
            known[uuid].destroy()
        nodes = {it.host: it.id for it in objects.ComputeNodeList.get_all(there)}
        for uuid in rows["instances"].keys() - known.keys():
            host = rows["instances"][uuid]
            flavor = objects.Flavor(
                id=1, flavorid="1", name="small", vcpus=1, memory_mb=512, root_gb=5, ephemeral_gb=0, swap=0,
                rxtx_factor=1.0, vcpu_weight=0, disabled=False, is_public=True, extra_specs={},
            )  # fmt: skip
            objects.Instance(
                there, uuid=uuid, project_id=PROJECT, user_id=USER, host=host, node=host,
                compute_id=nodes[host], vm_state="active",
                task_state=None, flavor=flavor, vcpus=1, memory_mb=512, root_gb=5, ephemeral_gb=0,
            ).create()  # fmt: skip


if __name__ == "__main__":
    main()
