"""neutron-lib's client in the role of neutron-server: the bandwidth of the hosts' network cards."""

import uuid

import journal
from keystoneauth1 import loading
from neutron_lib.exceptions.placement import PlacementResourceProviderNotFound
from neutron_lib.placement.client import PlacementAPIClient
from oslo_config import cfg
from journal import PROJECT, USER, inventory, provider_uuid

EGRESS, INGRESS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"


class Bandwidth:
    """The card of one host below its agent, and a port whose bandwidth changes."""

    def __init__(self, service: journal.Service, conf: cfg.ConfigOpts, host: str) -> None:
        self.journal = service.journal
        self.random = service.random
        self.client = PlacementAPIClient(conf)
        self.host = host
        self.agent, self.card = provider_uuid(f"neutron {host} agent"), provider_uuid(f"neutron {host} eth0")
        self.port: str | None = None
        self.held = 0

    def step(self) -> None:
        if self.port is None:
            self.begin()
        elif self.random.random() < 0.4:
            self.announce()
        else:
            self.resize()

    def begin(self) -> None:
        try:
            self.client.get_resource_provider(provider_uuid(self.host))
        except PlacementResourceProviderNotFound:
            # Nova has not created the host yet.
            return
        for own, name, parent in (
            (self.agent, f"neutron {self.host}:agent", provider_uuid(self.host)),
            (self.card, f"neutron {self.host}:eth0", self.agent),
        ):
            self.client.ensure_resource_provider({"uuid": own, "name": name, "parent_provider_uuid": parent})
        self.client.update_trait("CUSTOM_PHYSNET_0")
        self.client.update_resource_provider_traits(self.card, ["CUSTOM_PHYSNET_0"])
        self.announce()
        port = str(uuid.uuid4())
        wanted = {EGRESS: 1000, INGRESS: 1000}
        self.client.update_allocation(port, {
            "allocations": {self.card: {"resources": wanted}},
            "project_id": PROJECT, "user_id": USER, "consumer_generation": None,
        })  # fmt: skip
        self.port, self.held = port, 1000
        self.journal.done("bind", {port: {self.card: wanted}})

    def announce(self) -> None:
        offered = {each: inventory(10_000_000, 1.0, self.random.randrange(100)) for each in (EGRESS, INGRESS)}
        self.client.update_resource_provider_inventories(self.card, offered)
        stored = {"inventories": offered, "traits": ["CUSTOM_PHYSNET_0"]}
        self.journal.done("announce", providers={self.card: stored})

    def resize(self) -> None:
        change = self.random.choice([500, 1000]) if self.held < 5000 else -4000
        self.client.update_qos_allocation(self.port, {self.card: {EGRESS: change, INGRESS: change}})
        self.held += change
        self.journal.done("resize", {self.port: {self.card: {EGRESS: self.held, INGRESS: self.held}}})


def main() -> None:
    service = journal.Service()
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("region_name"), cfg.StrOpt("endpoint_type", default="internal")], "placement")
    loading.register_session_conf_options(conf, "placement")
    loading.register_auth_conf_options(conf, "placement")
    conf([], default_config_files=[service.settings["config"]])
    hosts = service.settings["hosts"]
    service.run({f"neutron: {host}": Bandwidth(service, conf, host).step for host in hosts})


if __name__ == "__main__":
    main()
