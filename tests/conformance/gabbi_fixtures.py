"""The data the gabbi files expect, built through the API of a running server.

A gabbi file names its fixtures by class and refers to what they made by
environment variables, so the names of classes and variables are the
reference's. Everything else is made here with the calls any client has.

The order of the calls counts: generations, and with them some expectations of
the files, follow from how many writes a provider saw (one for each inventory
record, one for traits, one for each allocation, none for aggregates).

The module is not called fixtures, because a package of that name exists.
"""

import os
import uuid

import httpx
from gabbi import fixture

SHARES = "MISC_SHARES_VIA_AGGREGATE"
GIB_128 = 128 * 1024

# Variables that are a fresh UUID in every file.
UUID_VARIABLES = """
    RP_UUID RP_NAME RP_UUID1 RP_NAME1 RP_UUID2 RP_NAME2
    PARENT_PROVIDER_UUID ALT_PARENT_PROVIDER_UUID
    PROJECT_ID PROJECT_ID_ALT ADMIN_PROJECT_ID SERVICE_PROJECT_ID
    USER_ID USER_ID_ALT INSTANCE_UUID MIGRATION_UUID CONSUMER_UUID
""".split()


class APIFixture(fixture.GabbiFixture):
    """An empty service; base of all others.

    `server` is the URL of the server under test, set before a file is run.
    `needs` names the configurations the server must have been started with.
    """

    server = ""
    needs: frozenset[str] = frozenset()

    def start_fixture(self) -> None:
        for variable in UUID_VARIABLES:
            os.environ[variable] = str(uuid.uuid4())
        os.environ["CUSTOM_RES_CLASS"] = "CUSTOM_IRON_NFV"
        os.environ["CUSTOM_RES_CLASS1"] = "CUSTOM_IRON_NFV1"
        os.environ["CUSTOM_RES_CLASS2"] = "CUSTOM_IRON_NFV2"
        with Placement(self.server) as placement:
            self.build(placement)

    def build(self, placement: "Placement") -> None:
        """Make the fixture's data."""


class LegacyRBACPolicyFixture(APIFixture):
    """The rules before the secure defaults."""


class SecureRBACPolicyFixture(APIFixture):
    """The secure default rules alone, with scopes."""

    needs = frozenset({"secure-rbac"})


class OpenPolicyFixture(APIFixture):
    """A policy file that allows everything to everyone."""

    needs = frozenset({"open-policy"})


class CORSFixture(APIFixture):
    """Cross-origin requests from http://valid.example.com are allowed."""

    needs = frozenset({"cors"})


class AllocationFixture(APIFixture):
    """One provider, used by two consumers of one user and one of another.

    provider RP_UUID: VCPU 10, DISK_GB 2048
      CONSUMER_0       USER_ID      DISK_GB 1000
      CONSUMER_ID      USER_ID      VCPU 6
      ALT_CONSUMER_ID  ALT_USER_ID  DISK_GB 20, VCPU 1

    ALT_RP_UUID and ALT_RP_NAME are for a provider the files create themselves.
    """

    def build(self, placement: "Placement") -> None:
        for variable in ("ALT_USER_ID", "ALT_RP_UUID", "ALT_RP_NAME"):
            os.environ[variable] = str(uuid.uuid4())
        env = os.environ
        provider = env["RP_UUID"]
        disk = {"total": 2048, "step_size": 10, "min_unit": 10, "max_unit": 1000}
        inventories = {"DISK_GB": disk, "VCPU": 10}
        placement.provider(env["RP_NAME"], uuid=provider, inventories=inventories)
        claims = [
            ("CONSUMER_0", env["USER_ID"], {"DISK_GB": 1000}),
            ("CONSUMER_ID", env["USER_ID"], {"VCPU": 6}),
            ("ALT_CONSUMER_ID", env["ALT_USER_ID"], {"DISK_GB": 20, "VCPU": 1}),
        ]
        for variable, user, resources in claims:
            env[variable] = placement.claim(provider, resources, env["PROJECT_ID"], user)


class SharedStorageFixture(APIFixture):
    """Two hosts and two providers of shared disk, all in one aggregate.

    cn1  VCPU, MEMORY_MB, SSE and SSE2   ss   DISK_GB 2000, shared
    cn2  VCPU, MEMORY_MB, DISK_GB        ss2  DISK_GB 2000, shared
    Below each host cnX: numaX_1 with pfX_1, numaX_2 with pfX_2 (8 VFs each).
    """

    def build(self, placement: "Placement") -> None:
        aggregate = os.environ["AGG_UUID"] = str(uuid.uuid4())
        disk = {"DISK_GB": {"total": 2000, "reserved": 100, "allocation_ratio": 1.0}}
        host = {
            "VCPU": {"total": 24, "allocation_ratio": 16.0},
            "MEMORY_MB": {"total": GIB_128, "allocation_ratio": 1.5},
        }
        in_aggregate = {"aggregates": [aggregate]}
        cn1 = placement.provider(
            "cn1", "CN1_UUID", inventories=host,
            traits=["HW_CPU_X86_SSE", "HW_CPU_X86_SSE2"], **in_aggregate,
        )  # fmt: skip
        cn2 = placement.provider("cn2", "CN2_UUID", inventories=host | disk, **in_aggregate)
        for name in ("ss", "ss2"):
            variable = f"{name.upper()}_UUID"
            placement.provider(name, variable, inventories=disk, traits=[SHARES], **in_aggregate)
        for number, root in ((1, cn1), (2, cn2)):
            for node in (1, 2):
                suffix = f"{number}_{node}"
                numa = placement.provider(f"numa{suffix}", f"NUMA{suffix}_UUID", parent=root)
                placement.provider(
                    f"pf{suffix}", f"PF{suffix}_UUID", parent=numa,
                    inventories={"SRIOV_NET_VF": 8},
                )  # fmt: skip


class NUMAAggregateFixture(APIFixture):
    """Two hosts with CPUs in NUMA nodes only, and shared disks in other aggregates.

    cn1 in A, cn2 in A and B; ss1 shares DISK_GB in A, ss2 in C.
    Below each host cnX: numaX_1 and numaX_2 (VCPU 24); numa1_1 is in C.
    """

    def build(self, placement: "Placement") -> None:
        agg_a, agg_b, agg_c = aggregates("AGGA_UUID", "AGGB_UUID", "AGGC_UUID")
        disk = {"DISK_GB": {"total": 2000, "reserved": 100, "allocation_ratio": 1.0}}
        cpus = {"VCPU": {"total": 24, "allocation_ratio": 16.0}}
        cn1 = placement.provider("cn1", "CN1_UUID", aggregates=[agg_a])
        cn2 = placement.provider("cn2", "CN2_UUID", aggregates=[agg_a, agg_b])
        for name, aggregate in (("ss1", agg_a), ("ss2", agg_c)):
            placement.provider(
                name, f"{name.upper()}_UUID", aggregates=[aggregate],
                inventories=disk, traits=[SHARES],
            )  # fmt: skip
        nodes = [("1_1", cn1, [agg_c]), ("1_2", cn1, []), ("2_1", cn2, []), ("2_2", cn2, [])]
        for suffix, root, member_of in nodes:
            placement.provider(
                f"numa{suffix}", f"NUMA{suffix}_UUID", parent=root,
                aggregates=member_of, inventories=cpus,
            )  # fmt: skip


class NonSharedStorageFixture(APIFixture):
    """Three equal hosts with disks of their own; three aggregates still unused."""

    def build(self, placement: "Placement") -> None:
        aggregates("AGGA_UUID", "AGGB_UUID", "AGGC_UUID")
        host = {"VCPU": 24, "MEMORY_MB": GIB_128, "DISK_GB": 2000}
        for name in ("cn1", "cn2", "cn3"):
            placement.provider(name, f"{name.upper()}_UUID", inventories=host)


class GranularFixture(APIFixture):
    """Three hosts that overlap in what they have, and three sharing providers.

    aggregate A: cn_left, cn_middle, shr_disk_1, shr_disk_2
    aggregate B: cn_middle, cn_right, shr_disk_2
    aggregate C: cn_right, shr_net
    """

    def build(self, placement: "Placement") -> None:
        agg_a, agg_b, agg_c = aggregates("AGGA", "AGGB", "AGGC")
        host = {"VCPU": 8, "MEMORY_MB": 4096}
        network = {"SRIOV_NET_VF": 8, "CUSTOM_NET_MBPS": 4000}
        placement.resource_class("CUSTOM_NET_MBPS")
        placement.provider(
            "cn_left", "CN_LEFT", aggregates=[agg_a],
            inventories=host | {"DISK_GB": 500, "VGPU": 8} | network,
            traits=["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_GPU_API_DXVA",
                    "HW_NIC_DCB_PFC", "CUSTOM_FOO"],
        )  # fmt: skip
        placement.provider(
            "cn_middle", "CN_MIDDLE", aggregates=[agg_a, agg_b],
            inventories=host | network,
            traits=["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE",
                    "HW_NIC_ACCEL_TLS"],
        )  # fmt: skip
        placement.provider(
            "cn_right", "CN_RIGHT", aggregates=[agg_b, agg_c],
            inventories=host | {"DISK_GB": 500, "VGPU": {"total": 8, "max_unit": 2}},
            traits=["HW_CPU_X86_MMX", "HW_GPU_API_DXVA", "CUSTOM_DISK_SSD"],
        )  # fmt: skip
        disk = {"DISK_GB": 1000}
        placement.provider(
            "shr_disk_1", "SHR_DISK_1", aggregates=[agg_a],
            inventories=disk, traits=[SHARES, "CUSTOM_DISK_SSD"],
        )  # fmt: skip
        placement.provider(
            "shr_disk_2", "SHR_DISK_2", aggregates=[agg_a, agg_b],
            inventories=disk, traits=[SHARES],
        )  # fmt: skip
        placement.provider(
            "shr_net", "SHR_NET", aggregates=[agg_c],
            inventories={"SRIOV_NET_VF": 16, "CUSTOM_NET_MBPS": 40000}, traits=[SHARES],
        )  # fmt: skip


class NUMANetworkFixture(APIFixture):
    """A host in the form of NUMA nodes, devices and network agents, and a plain one.

    ss1 shares DISK_GB 2000 in aggregate A, where both hosts are.

    cn1 (no inventory)
      numa0  VCPU 4 (2 used), MEMORY_MB 2048 from 512 in steps of 256
        fpga0 FPGA 1, pgpu0 VGPU 8
      numa1  VCPU 4, MEMORY_MB 2048 from 256 to 1024, CUSTOM_FOO
        fpga1_0 FPGA 1, fpga1_1 FPGA 1
      sriov_agent  esn1 and esn2: bandwidth on physical networks 1 and 2
      ovs_agent    br_int: bandwidth on physical network 0
    cn2  VCPU 8 (3 used), MEMORY_MB 2048 from 1024 in steps of 128, DISK_GB 1000
      nic1  pf1_1, pf1_2 (4 VFs each)
      nic2  pf2_1 to pf2_4 (2 VFs each)
      nic3  pf3_1 (8 VFs)
    Physical functions alternate between physical networks 1 and 2.
    """

    def build(self, placement: "Placement") -> None:
        (aggregate,) = aggregates("AGGA_UUID")
        # Parents first, where a subclass puts some above the hosts.
        parent_1, parent_2 = self.parents(placement)
        placement.provider(
            "ss1", "SS1_UUID", aggregates=[aggregate],
            inventories={"DISK_GB": 2000}, traits=[SHARES],
        )  # fmt: skip
        self._numa_host(placement, parent_1, aggregate)
        self._plain_host(placement, parent_2, aggregate)

    def parents(self, placement: "Placement") -> tuple[str | None, str | None]:
        """The parents of cn1 and of cn2."""
        return None, None

    def _numa_host(self, placement: "Placement", parent: str | None, aggregate: str) -> None:
        host = placement.provider(
            "cn1", "CN1_UUID", parent=parent, aggregates=[aggregate],
            traits=["COMPUTE_VOLUME_MULTI_ATTACH"],
        )  # fmt: skip
        memory_0 = {"total": 2048, "min_unit": 512, "step_size": 256}
        memory_1 = {"total": 2048, "min_unit": 256, "max_unit": 1024}
        numa_0 = placement.provider(
            "numa0", "NUMA0_UUID", parent=host,
            inventories={"VCPU": 4, "MEMORY_MB": memory_0}, traits=["HW_NUMA_ROOT"],
        )  # fmt: skip
        numa_1 = placement.provider(
            "numa1", "NUMA1_UUID", parent=host,
            inventories={"VCPU": 4, "MEMORY_MB": memory_1},
            traits=["HW_NUMA_ROOT", "CUSTOM_FOO"],
        )  # fmt: skip
        placement.claim(numa_0, {"VCPU": 2}, "numafx-project", "numafx-user")
        fpga, vgpu = {"FPGA": 1}, {"VGPU": 8}
        placement.provider("fpga0", "FPGA0_UUID", parent=numa_0, inventories=fpga)
        placement.provider("pgpu0", "PGPU0_UUID", parent=numa_0, inventories=vgpu)
        placement.provider("fpga1_0", "FPGA1_0_UUID", parent=numa_1, inventories=fpga)
        placement.provider("fpga1_1", "FPGA1_1_UUID", parent=numa_1, inventories=fpga)
        self._agent(placement, host, "sriov_agent", "DIRECT", {"esn1": 1, "esn2": 2})
        self._agent(placement, host, "ovs_agent", "NORMAL", {"br_int": 0})

    def _agent(
        self, placement: "Placement", host: str, name: str, vnic: str, devices: dict[str, int]
    ) -> None:
        """A network agent with its devices, each on the physical network given."""
        agent = placement.provider(
            name, f"{name.upper()}_UUID", parent=host, traits=[f"CUSTOM_VNIC_TYPE_{vnic}"]
        )
        for device, network in devices.items():
            bandwidth = 10000 * network or 1000
            placement.provider(
                device, f"{device.upper()}_UUID", parent=agent,
                inventories={"NET_BW_EGR_KILOBIT_PER_SEC": bandwidth},
                traits=[f"CUSTOM_PHYSNET{network}"],
            )  # fmt: skip

    def _plain_host(self, placement: "Placement", parent: str | None, aggregate: str) -> None:
        memory = {"total": 2048, "min_unit": 1024, "step_size": 128}
        host = placement.provider(
            "cn2", "CN2_UUID", parent=parent, aggregates=[aggregate],
            inventories={"VCPU": 8, "MEMORY_MB": memory, "DISK_GB": 1000},
            traits=["CUSTOM_FOO"],
        )  # fmt: skip
        placement.claim(host, {"VCPU": 3}, "numafx-project", "numafx-user")
        nics = [
            placement.provider(
                f"nic{number}", f"NIC{number}_UUID", parent=host, traits=["CUSTOM_HW_NIC_ROOT"]
            )
            for number in (1, 2, 3)
        ]
        for number, (nic, functions, vfs) in enumerate(zip(nics, (2, 4, 1), (4, 2, 8)), 1):
            for function in range(1, functions + 1):
                suffix = f"{number}_{function}"
                network = 2 - function % 2
                placement.provider(
                    f"pf{suffix}", f"PF{suffix}_UUID", parent=nic,
                    inventories={"CUSTOM_VF": vfs}, traits=[f"CUSTOM_PHYSNET{network}"],
                )  # fmt: skip


class DeepNUMANetworkFixture(NUMANetworkFixture):
    """The same with empty providers above the hosts: gp1 over p1 (cn1) and p2 (cn2)."""

    def parents(self, placement: "Placement") -> tuple[str | None, str | None]:
        grandparent = placement.provider("gp1")
        return tuple(placement.provider(name, parent=grandparent) for name in ("p1", "p2"))


class NeutronQoSMultiSegmentFixture(APIFixture):
    """Four hosts as neutron describes them, on the segments of one network.

    Each host: an Open vSwitch agent with packet rate and bridges with bandwidth,
    an SR-IOV agent with physical functions with bandwidth. compute0 is on none
    of the network's segments, compute1 on S1, compute2 on S2, compute3 on both
    (two bridges and two functions, with less bandwidth).
    """

    HOSTS = {
        "compute0": ("OTHER",),
        "compute1": ("MSN_S1",),
        "compute2": ("MSN_S2",),
        "compute3": ("MSN_S1", "MSN_S2"),
    }
    SRIOV_VNICS = [
        "CUSTOM_VNIC_TYPE_DIRECT",
        "CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL",
        "CUSTOM_VNIC_TYPE_MACVTAP",
    ]

    def build(self, placement: "Placement") -> None:
        for host, segments in self.HOSTS.items():
            self._host(placement, host, segments)

    def _host(self, placement: "Placement", host: str, segments: tuple[str, ...]) -> None:
        inventories = {"VCPU": 8, "MEMORY_MB": 4096, "DISK_GB": 500}
        root = placement.provider(host, host, inventories=inventories)
        vnics = ["CUSTOM_VNIC_TYPE_NORMAL"]
        agent_name = f"{host}:Open vSwitch agent"
        agent = placement.provider(
            agent_name, f"{host}:ovs_agent", parent=root, traits=vnics,
            inventories={"NET_PACKET_RATE_KILOPACKET_PER_SEC": 1000},
        )  # fmt: skip
        narrow = len(segments) > 1
        bandwidth = self._bandwidth(1000 if narrow else 5000)
        for segment, (device, variable) in zip(segments, (("br-ex", "br_ex"), ("br-ex2", "br_ex2"))):
            placement.provider(
                f"{agent_name}:{device}", f"{host}:{variable}", parent=agent,
                inventories=bandwidth, traits=[*vnics, f"CUSTOM_PHYSNET_{segment}"],
            )  # fmt: skip
        agent_name = f"{host}:NIC Switch agent"
        agent = placement.provider(
            agent_name, f"{host}:sriov_agent", parent=root, traits=self.SRIOV_VNICS
        )
        bandwidth = self._bandwidth(1000 if narrow else 10000)
        for number, segment in enumerate(segments):
            placement.provider(
                f"{agent_name}:enp129s0f{number}", f"{host}:pf{number}", parent=agent,
                inventories=bandwidth, traits=[*self.SRIOV_VNICS, f"CUSTOM_PHYSNET_{segment}"],
            )  # fmt: skip

    @staticmethod
    def _bandwidth(kilobits: int) -> dict[str, int]:
        return {f"NET_BW_{way}_KILOBIT_PER_SEC": kilobits for way in ("EGR", "IGR")}


def aggregates(*variables: str) -> list[str]:
    """A fresh aggregate for each variable, which is set to it."""
    for variable in variables:
        os.environ[variable] = str(uuid.uuid4())
    return [os.environ[variable] for variable in variables]


class Placement:
    """The few calls the fixtures need, made as admin; any refusal is an error."""

    def __init__(self, server: str) -> None:
        self._http = httpx.Client(base_url=server, headers={"X-Auth-Token": "admin"}, timeout=30)

    def __enter__(self) -> "Placement":
        return self

    def __exit__(self, *_exception) -> None:
        self._http.close()

    def provider(
        self, name: str, variable: str | None = None, *, uuid: str | None = None,
        parent: str | None = None, aggregates: list[str] = (),
        inventories: dict[str, int | dict] = {}, traits: list[str] = (),
    ) -> str:  # fmt: skip
        """Create a provider with all it has; return its UUID.

        The environment variable `variable` is set to the UUID. An inventory is
        its total, or a record; max_unit is the total where it is not said.
        """
        body = {"name": name, "uuid": uuid or new_uuid()}
        if parent:
            body["parent_provider_uuid"] = parent
        self._call("POST", "/resource_providers", body)
        provider = f"/resource_providers/{body['uuid']}"
        if aggregates:
            # Before 1.19 this leaves the provider's generation alone.
            self._call("PUT", f"{provider}/aggregates", list(aggregates), version="1.1")
        for generation, (resource_class, stock) in enumerate(inventories.items()):
            self.resource_class(resource_class)
            record = dict(stock) if isinstance(stock, dict) else {"total": stock}
            record.setdefault("max_unit", record["total"])
            record |= {"resource_class": resource_class, "resource_provider_generation": generation}
            self._call("POST", f"{provider}/inventories", record)
        if traits:
            for trait in traits:
                if trait.startswith("CUSTOM_"):
                    self._call("PUT", f"/traits/{trait}")
            generation = len(inventories)
            self._call(
                "PUT", f"{provider}/traits",
                {"traits": list(traits), "resource_provider_generation": generation},
            )  # fmt: skip
        if variable:
            os.environ[variable] = body["uuid"]
        return body["uuid"]

    def resource_class(self, name: str) -> None:
        """Make sure that a custom class exists; the standard ones always do."""
        if name.startswith("CUSTOM_"):
            self._call("PUT", f"/resource_classes/{name}")

    def claim(self, provider: str, resources: dict[str, int], project: str, user: str) -> str:
        """Allocate to a new consumer without a type; return the consumer's UUID."""
        consumer = new_uuid()
        body = {
            "allocations": {provider: {"resources": resources}},
            "project_id": project,
            "user_id": user,
            "consumer_generation": None,
        }
        # From 1.38 a consumer would have to have a type.
        self._call("PUT", f"/allocations/{consumer}", body, version="1.37")
        return consumer

    def _call(self, method: str, path: str, body=None, version: str = "1.39") -> None:
        headers = {"OpenStack-API-Version": f"placement {version}"}
        answer = self._http.request(method, path, json=body, headers=headers)
        if not answer.is_success:
            raise AssertionError(f"fixture: {method} {path}: {answer.status_code} {answer.text}")


def new_uuid() -> str:
    return str(uuid.uuid4())
