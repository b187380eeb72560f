"""Nova's own report client in the roles of nova-compute, nova-scheduler and nova-conductor.

Started by suite.py as a process of its own, because nova, neutron and cyborg each have global configurations.
"""

import random
import threading
import time
import uuid

import journal
from nova import config, context, exception, objects
from nova.scheduler import utils
from nova.scheduler.client.report import SchedulerReportClient
from journal import PROJECT, USER, inventory, provider_uuid

LIVE_INSTANCES = 12


def amounts(allocations: dict) -> dict:
    """Allocations as the API takes them, as {provider: {class: amount}}."""
    return {provider: dict(it["resources"]) for provider, it in allocations.items()}


class Compute:
    """The periodic task of nova-compute: what the host has, as a tree of providers."""

    def __init__(self, service: journal.Service, name: str) -> None:
        self.journal = service.journal
        self.name, self.uuid = name, provider_uuid(name)
        self.random = random.Random(f"{service.settings['seed']} {name}")
        self.client = SchedulerReportClient()
        self.context = context.get_admin_context()
        # All that were in the tree at some time.
        self.seen: set[str] = set()

    def step(self) -> None:
        # An update that is given up half-way would leave open what is stored.
        while True:
            tree = self.client.get_provider_tree_and_ensure_root(self.context, self.uuid, name=self.name)
            self.seen |= set(tree.get_provider_uuids(self.uuid))
            self.change(tree)
            try:
                self.client.update_from_provider_tree(self.context, tree)
            except (exception.ResourceProviderUpdateConflict, exception.ResourceProviderSyncFailed):
                # Why it failed is known from the answers.
                time.sleep(journal.PAUSE * self.random.random())
                continue
            now = set(tree.get_provider_uuids(self.uuid))
            self.seen |= now
            # Those of neutron and cyborg are in its tree, too.
            own = [tree.data(it) for it in now if not tree.data(it).name.startswith(("neutron", "cyborg"))]
            stored = {it.uuid: {"inventories": it.inventory, "traits": sorted(it.traits)} for it in own}
            self.journal.done("update", providers=stored | {it: None for it in self.seen - now})
            return

    def change(self, tree) -> None:
        chance = self.random
        tree.update_inventory(self.uuid, {
            "VCPU": inventory(48, 1.3, chance.randrange(3)),
            "MEMORY_MB": inventory(131072, 1.0, chance.choice([512, 1024])),
            "DISK_GB": inventory(2000),
        })  # fmt: skip
        traits = {"COMPUTE_NODE", "HW_CPU_X86_AVX2"} | ({"CUSTOM_WARM"} if chance.random() < 0.5 else set())
        tree.update_traits(self.uuid, traits)
        tree.update_aggregates(self.uuid, {provider_uuid("aggregate 0"), provider_uuid("aggregate 1")})
        for card in range(2):
            name = f"{self.name}_gpu{card}"
            if not tree.exists(name):
                tree.new_child(name, self.uuid, uuid=provider_uuid(name))
            tree.update_inventory(name, {"VGPU": inventory(8)})
            tree.update_traits(name, {"CUSTOM_GPU"})
        # A device that comes and goes.
        name = f"{self.name}_usb"
        if tree.exists(name):
            tree.remove(name)
        elif chance.random() < 0.5:
            tree.new_child(name, self.uuid, uuid=provider_uuid(name))
            tree.update_inventory(name, {"CUSTOM_USB": inventory(1)})


class Quiet(Compute):
    """A host that nobody else touches: the generation that nova has in its cache must always be the right one."""

    total = 0

    def step(self) -> None:
        tree = self.client.get_provider_tree_and_ensure_root(self.context, self.uuid, name=self.name)
        self.total += 1
        tree.update_inventory(self.uuid, {"CUSTOM_QUIET": inventory(self.total)})
        # A conflict is a failure.
        self.client.update_from_provider_tree(self.context, tree)
        stored = {"inventories": tree.data(self.uuid).inventory, "traits": []}
        self.journal.done("quiet update", providers={self.uuid: stored})


class Reshaped(Compute):
    """A host whose instance moves from the root to a child and back, by POST /reshaper."""

    instance: str | None = None
    nested = False

    def step(self) -> None:
        tree = self.client.get_provider_tree_and_ensure_root(self.context, self.uuid, name=self.name)
        child = f"{self.name}_card"
        if not tree.exists(child):
            tree.new_child(child, self.uuid, uuid=provider_uuid(child))
            tree.update_inventory(self.uuid, {"CUSTOM_CARD": inventory(4)})
            self.client.update_from_provider_tree(self.context, tree)
            return
        if self.instance is None:
            self.instance = str(uuid.uuid4())
            holder = self.uuid if tree.data(self.uuid).inventory else provider_uuid(child)
            self.nested = holder != self.uuid
            payload = {
                "allocations": {holder: {"resources": {"CUSTOM_CARD": 2}}},
                "project_id": PROJECT, "user_id": USER, "consumer_generation": None,
            }  # fmt: skip
            if not self.client.put_allocations(self.context, self.instance, payload):
                raise AssertionError("the instance of the reshaped host was refused")
            self.journal.done("boot", {self.instance: amounts(payload["allocations"])})
            return
        source, target = self.uuid, provider_uuid(child)
        if self.nested:
            source, target = target, source
        everything = self.client.get_allocations_for_provider_tree(self.context, self.name)
        held = {"CUSTOM_CARD": 2}
        for each in everything.values():
            each["allocations"][target] = {"resources": each["allocations"].pop(source)["resources"]}
        tree.update_inventory(source, {})
        tree.update_inventory(target, {"CUSTOM_CARD": inventory(4)})
        try:
            self.client.update_from_provider_tree(self.context, tree, allocations=everything)
        except exception.PlacementReshapeConflict:
            return
        self.nested = not self.nested
        stored = {source: {"inventories": {}, "traits": []}, target: {"inventories": {"CUSTOM_CARD": inventory(4)}, "traits": []}}
        self.journal.done("reshape", {it: {target: held} for it in everything}, stored)


class Scheduler:
    """Instances boot, migrate and are deleted, as nova-scheduler and nova-conductor do it."""

    def __init__(self, service: journal.Service, nth: int) -> None:
        self.journal = service.journal
        self.random = random.Random(f"{service.settings['seed']} scheduler {nth}")
        self.client = SchedulerReportClient()
        self.context = context.get_admin_context()
        self.live: dict[str, dict] = {}

    def step(self) -> None:
        chance = self.random.random()
        if len(self.live) < LIVE_INSTANCES and chance < 0.5 or not self.live:
            self.boot()
        elif chance < 0.8:
            self.migrate(self.random.choice(list(self.live)))
        else:
            self.delete(self.random.choice(list(self.live)))

    def candidate(self) -> tuple[dict, str]:
        extra = {"resources:VGPU": "1"} if self.random.random() < 0.3 else {}
        flavor = objects.Flavor(
            vcpus=self.random.choice([1, 2]), memory_mb=512, root_gb=5, ephemeral_gb=0, swap=0, extra_specs=extra
        )
        spec = objects.RequestSpec(flavor=flavor, image=objects.ImageMeta(properties=objects.ImageMetaProps()))
        wanted = utils.ResourceRequest.from_request_spec(spec)
        found, _, version = self.client.get_allocation_candidates(self.context, wanted)
        if found is None:
            raise AssertionError("no answer to a query for candidates")
        return (self.random.choice(found) if found else {}), version

    def claim(self, instance: str) -> dict | None:
        """Claim what some candidate offers; None if there is none, or another was faster."""
        request, version = self.candidate()
        if not request:
            return None
        claimed = self.client.claim_resources(self.context, instance, request, PROJECT, USER, version)
        if claimed is None:
            raise AssertionError("no answer to a claim")
        return amounts(request["allocations"]) if claimed else None

    def boot(self) -> None:
        instance = str(uuid.uuid4())
        held = self.claim(instance)
        if held:
            self.live[instance] = held
        self.journal.done("boot" if held else "no room", {instance: held or {}})

    def migrate(self, instance: str) -> None:
        """A live migration: the source's allocations are the migration's until it has ended, or failed."""
        migration = str(uuid.uuid4())
        if not self.client.move_allocations(self.context, instance, migration):
            raise AssertionError("a move was refused")
        source = self.live[instance]
        self.journal.done("move to the migration", {migration: source, instance: {}})
        target = self.claim(instance)
        if target and self.random.random() < 0.7:
            if not self.client.delete_allocation_for_instance(self.context, migration, "migration", force=True):
                raise AssertionError("the migration had no allocations")
            self.live[instance] = target
            self.journal.done("migrated", {instance: target, migration: {}})
        else:
            # It fails: the allocations of the source come back, and take the place of the target's.
            if not self.client.move_allocations(self.context, migration, instance):
                raise AssertionError("a move back was refused")
            self.journal.done("migration failed", {instance: source, migration: {}})

    def delete(self, instance: str) -> None:
        force = self.random.random() < 0.5
        if not self.client.delete_allocation_for_instance(self.context, instance, force=force):
            raise AssertionError("an instance had no allocations")
        del self.live[instance]
        self.journal.done("delete", {instance: {}})


def main() -> None:
    service = journal.Service()
    threading.current_thread().name = "nova"
    config.parse_args(
        ["nova", "--config-file", service.settings["config"]],
        default_config_files=[], configure_db=False, init_rpc=False,
    )  # fmt: skip
    objects.register_all()
    threads = {name: Compute(service, name) for name in service.settings["hosts"]}
    threads["quiet"] = Quiet(service, "quiet")
    threads["reshaped"] = Reshaped(service, "reshaped")
    threads |= {f"scheduler {nth}": Scheduler(service, nth) for nth in range(service.settings["schedulers"])}
    service.run({f"nova: {name}": it.step for name, it in threads.items()})


if __name__ == "__main__":
    main()
