"""Cyborg's own client in the role of cyborg-conductor: an accelerator of each host."""

import cyborg.conf
import journal
from cyborg import context
from cyborg.common.placement_client import PlacementClient
from journal import inventory, provider_uuid


class Accelerator:
    """One accelerator, whose slots and traits change."""

    def __init__(self, service: journal.Service, host: str) -> None:
        self.journal = service.journal
        self.random = service.random
        self.client = PlacementClient()
        self.context = context.get_admin_context()
        self.host = host
        self.uuid = provider_uuid(f"cyborg {host}")
        # One for each, because cyborg takes it for a failure if another thread creates the same trait.
        self.trait = f"CUSTOM_FPGA_{host.upper()}"
        self.exists = False

    def step(self) -> None:
        if not self.exists:
            if self.client.get(f"/resource_providers/{provider_uuid(self.host)}").status_code == 404:
                # Nova has not created the host yet.
                return
            self.client.ensure_resource_provider(
                self.context, self.uuid, f"cyborg {self.host}_fpga", provider_uuid(self.host)
            )
            self.client.ensure_resource_classes(self.context, ["CUSTOM_ACCELERATOR_SLOT"])
            self.exists = True
        offered = {"FPGA": inventory(self.random.choice([2, 4])), "CUSTOM_ACCELERATOR_SLOT": inventory(1)}
        response = self.client.update_inventory(self.uuid, offered)
        if response.get("inventories") is None:
            raise AssertionError(f"an inventory was refused: {response}")
        self.client.add_traits_to_rp(self.uuid, [self.trait])
        if self.random.random() < 0.5:
            loaded = f"CUSTOM_LOADED_{self.host.upper()}"
            self.client.add_traits_to_rp(self.uuid, [loaded])
            self.client.delete_traits_with_prefixes(self.context, self.uuid, [loaded])
        stored = {"inventories": offered, "traits": [self.trait]}
        self.journal.done("announce", providers={self.uuid: stored})


def main() -> None:
    service = journal.Service()
    cyborg.conf.CONF([], default_config_files=[service.settings["config"]])
    service.run({f"cyborg: {host}": Accelerator(service, host).step for host in service.settings["hosts"]})


if __name__ == "__main__":
    main()
