"""Every method of openstacksdk's placement proxy against a running server.

The SDK is used as published, with the `admin_token` plugin that stands in for
Keystone: the endpoint and the token of noauth2's admin. The last test holds
this file to its word that no public method of the proxy is left out.
"""

import contextlib
import unittest
import uuid

import openstack
from openstack import exceptions
from openstack import warnings as sdk_warnings
from openstack.placement.v1 import _proxy

CALLED = set()


class RecordingProxy:
    """The SDK's proxy, noting which of its methods are called."""

    def __init__(self, proxy: _proxy.Proxy) -> None:
        self._proxy = proxy

    def __getattr__(self, name: str):
        CALLED.add(name)
        return getattr(self._proxy, name)


class ProxyCase(unittest.TestCase):
    """A connection as admin, and shorthands for what most tests begin with."""

    server = ""
    placement: RecordingProxy

    @classmethod
    def setUpClass(cls) -> None:
        cls.connection = openstack.connect(
            load_envvars=False, load_yaml_config=False, auth_type="admin_token",
            auth={"endpoint": cls.server, "token": "admin"},
        )  # fmt: skip
        cls.placement = RecordingProxy(cls.connection.placement)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.connection.close()

    @contextlib.contextmanager
    def refused(self, kind: type[exceptions.HttpException], words: str):
        """The block raises `kind`, and the answer's detail has these words."""
        with self.assertRaises(kind) as raised:
            yield
        self.assertIn(words, raised.exception.response.json()["errors"][0]["detail"])

    def provider(self, **attributes):
        """A provider with a name of its own."""
        name = attributes.pop("name", f"provider-{uuid.uuid4()}")
        return self.placement.create_resource_provider(name=name, **attributes)

    def host(self, vcpus: int = 8):
        """A provider with VCPU and MEMORY_MB, as it is after they were set."""
        provider = self.provider()
        inventories = {"VCPU": {"total": vcpus}, "MEMORY_MB": {"total": 4096}}
        return self.placement.set_resource_provider_inventories(provider, inventories, 0)

    def claim(self, provider, resources: dict[str, int], **attributes):
        """Allocations of a new consumer from one provider."""
        attributes.setdefault("project_id", new_uuid())
        attributes.setdefault("user_id", new_uuid())
        return self.placement.update_allocation(
            new_uuid(), allocations={provider.id: {"resources": resources}},
            consumer_generation=None, consumer_type="INSTANCE", **attributes,
        )  # fmt: skip


class ResourceProviders(ProxyCase):
    def test_create_answers_the_provider(self):
        root = self.provider(id=(root_uuid := new_uuid()))
        child = self.provider(parent_provider_id=root.id)
        self.assertEqual(root_uuid, root.id)
        self.assertEqual(0, root.generation)
        self.assertIsNone(root.parent_provider_id)
        self.assertEqual(root.id, root.root_provider_id)
        self.assertEqual(root.id, child.parent_provider_id)
        self.assertEqual(root.id, child.root_provider_id)
        self.assertIn("allocations", [link["rel"] for link in root.links])

    def test_a_name_is_taken_once(self):
        provider = self.provider()
        with self.refused(exceptions.ConflictException, "Conflicting resource provider name"):
            self.provider(name=provider.name)

    def test_get(self):
        provider = self.provider()
        found = self.placement.get_resource_provider(provider.id)
        self.assertEqual((provider.id, provider.name), (found.id, found.name))
        with self.refused(exceptions.NotFoundException, "No resource provider with uuid"):
            self.placement.get_resource_provider(new_uuid())

    def test_find_by_name_and_by_uuid(self):
        provider = self.provider()
        for known_as in (provider.name, provider.id):
            self.assertEqual(provider.id, self.placement.find_resource_provider(known_as).id)
        self.assertIsNone(self.placement.find_resource_provider("nobody"))
        with self.assertRaises(exceptions.NotFoundException):
            self.placement.find_resource_provider("nobody", ignore_missing=False)

    def test_update_renames(self):
        provider, name = self.provider(), f"renamed-{uuid.uuid4()}"
        updated = self.placement.update_resource_provider(provider.id, name=name)
        self.assertEqual(name, updated.name)
        self.assertEqual(name, self.placement.get_resource_provider(provider.id).name)

    def test_list_with_each_filter(self):
        aggregate, host, other = new_uuid(), self.host(), self.provider()
        self.placement.set_resource_provider_aggregates(host, aggregate)
        traits = self.placement.get_resource_provider_trait(host)
        self.placement.set_resource_provider_trait(traits, traits=["HW_CPU_X86_AVX"])
        child = self.provider(parent_provider_id=host.id)

        def listed(**query):
            return {provider.id for provider in self.placement.resource_providers(**query)}

        self.assertLessEqual({host.id, other.id, child.id}, listed())
        self.assertEqual({host.id}, listed(name=host.name))
        self.assertEqual({host.id}, listed(id=host.id))
        self.assertEqual({host.id}, listed(member_of=aggregate))
        self.assertEqual({host.id, child.id}, listed(in_tree=child.id))
        self.assertEqual({host.id}, listed(in_tree=host.id, resources="VCPU:8"))
        self.assertEqual(set(), listed(in_tree=host.id, resources="VCPU:9"))
        self.assertEqual({host.id}, listed(in_tree=host.id, required="HW_CPU_X86_AVX"))

    def test_delete(self):
        provider = self.provider()
        self.assertIsNone(self.placement.delete_resource_provider(provider))
        self.assertIsNone(self.placement.delete_resource_provider(provider.id))
        with self.assertRaises(exceptions.NotFoundException):
            self.placement.delete_resource_provider(provider.id, ignore_missing=False)

    def test_a_provider_in_use_stays(self):
        host = self.host()
        self.claim(host, {"VCPU": 1})
        with self.refused(exceptions.ConflictException, "Unable to delete resource provider"):
            self.placement.delete_resource_provider(host)

    def test_wait_for_status(self):
        # No resource of placement has a status, but any attribute may be watched.
        provider, name = self.provider(), f"renamed-{uuid.uuid4()}"
        stale = self.placement.get_resource_provider(provider.id)
        self.placement.update_resource_provider(provider.id, name=name)
        waited = self.placement.wait_for_status(stale, name, interval=0.05, wait=5, attribute="name")
        self.assertEqual(name, waited.name)

    def test_wait_for_delete(self):
        provider = self.provider()
        self.placement.delete_resource_provider(provider.id)
        waited = self.placement.wait_for_delete(provider, interval=0.05, wait=5)
        self.assertEqual(provider.id, waited.id)


class Aggregates(ProxyCase):
    def test_set_and_fetch(self):
        provider, wanted = self.provider(), {new_uuid(), new_uuid()}
        updated = self.placement.set_resource_provider_aggregates(provider, *wanted)
        self.assertEqual(wanted, set(updated.aggregates))
        fetched = self.placement.fetch_resource_provider_aggregates(provider.id)
        self.assertEqual(wanted, set(fetched.aggregates))
        self.assertEqual(1, fetched.generation)

    def test_set_none(self):
        provider = self.provider()
        self.placement.set_resource_provider_aggregates(provider, new_uuid())
        current = self.placement.get_resource_provider(provider.id)
        self.assertEqual([], self.placement.set_resource_provider_aggregates(current).aggregates)

    def test_a_stale_generation_is_refused(self):
        provider = self.provider()
        stale = self.placement.get_resource_provider(provider.id)
        self.placement.set_resource_provider_aggregates(provider, new_uuid())
        with self.refused(exceptions.ConflictException, "generation already changed"):
            self.placement.set_resource_provider_aggregates(stale, new_uuid())

    def test_the_deprecated_get(self):
        provider, aggregate = self.provider(), new_uuid()
        self.placement.set_resource_provider_aggregates(provider, aggregate)
        with self.assertWarns(sdk_warnings.RemovedInSDK50Warning):
            fetched = self.placement.get_resource_provider_aggregates(provider.id)
        self.assertEqual([aggregate], fetched.aggregates)


class Inventories(ProxyCase):
    def test_create_fills_in_the_defaults(self):
        provider = self.provider()
        inventory = self.placement.create_resource_provider_inventory(provider, "VCPU", total=8)
        self.assertEqual("VCPU", inventory.resource_class)
        self.assertEqual(1, inventory.resource_provider_generation)
        self.assertEqual((8, 0, 1.0), (inventory.total, inventory.reserved, inventory.allocation_ratio))
        units = (inventory.min_unit, inventory.max_unit, inventory.step_size)
        self.assertEqual((1, 2147483647, 1), units)

    def test_get(self):
        host = self.host(vcpus=3)
        found = self.placement.get_resource_provider_inventory("VCPU", host)
        self.assertEqual(3, found.total)
        with self.refused(exceptions.NotFoundException, "No inventory of class"):
            self.placement.get_resource_provider_inventory("DISK_GB", host)

    def test_update(self):
        host = self.host()
        inventory = self.placement.get_resource_provider_inventory("VCPU", host)
        updated = self.placement.update_resource_provider_inventory(
            inventory, resource_provider_generation=host.generation, total=16, allocation_ratio=4.0
        )
        self.assertEqual((16, 4.0), (updated.total, updated.allocation_ratio))
        self.assertEqual(host.generation + 1, updated.resource_provider_generation)
        with self.refused(exceptions.ConflictException, "generation conflict"):
            self.placement.update_resource_provider_inventory(
                "VCPU", host, resource_provider_generation=host.generation, total=1
            )

    def test_list(self):
        host = self.host()
        listed = {i.resource_class: i.total for i in self.placement.resource_provider_inventories(host)}
        self.assertEqual({"VCPU": 8, "MEMORY_MB": 4096}, listed)

    def test_set_replaces_all(self):
        host = self.host()
        updated = self.placement.set_resource_provider_inventories(
            host.id, {"DISK_GB": {"total": 100}}, host.generation
        )
        self.assertEqual(host.generation + 1, updated.generation)
        listed = [i.resource_class for i in self.placement.resource_provider_inventories(host)]
        self.assertEqual(["DISK_GB"], listed)
        with self.assertRaises(exceptions.ConflictException):
            self.placement.set_resource_provider_inventories(host.id, {}, host.generation)

    def test_delete_one(self):
        host = self.host()
        self.placement.delete_resource_provider_inventory("VCPU", host)
        self.placement.delete_resource_provider_inventory("VCPU", host)
        with self.assertRaises(exceptions.NotFoundException):
            self.placement.delete_resource_provider_inventory("VCPU", host, ignore_missing=False)
        listed = [i.resource_class for i in self.placement.resource_provider_inventories(host)]
        self.assertEqual(["MEMORY_MB"], listed)

    def test_delete_all(self):
        host = self.host()
        self.placement.delete_resource_provider_inventories(host)
        self.assertEqual([], list(self.placement.resource_provider_inventories(host)))

    def test_what_is_in_use_stays(self):
        host = self.host()
        self.claim(host, {"VCPU": 1})
        with self.refused(exceptions.ConflictException, "in use"):
            self.placement.delete_resource_provider_inventories(host)


class ResourceClasses(ProxyCase):
    def new_class(self):
        return self.placement.create_resource_class(name=custom_name())

    def test_create_and_get(self):
        created = self.new_class()
        self.assertEqual(created.name, self.placement.get_resource_class(created.name).name)
        with self.assertRaises(exceptions.ConflictException):
            self.placement.create_resource_class(name=created.name)

    def test_list_has_standard_and_custom_ones(self):
        created = self.new_class()
        listed = {found.name for found in self.placement.resource_classes()}
        self.assertLessEqual({"VCPU", "MEMORY_MB", "DISK_GB", created.name}, listed)

    def test_update_renames(self):
        created, name = self.new_class(), custom_name()
        self.placement.update_resource_class(created.name, name=name)
        self.assertEqual(name, self.placement.get_resource_class(name).name)
        with self.assertRaises(exceptions.NotFoundException):
            self.placement.get_resource_class(created.name)

    def test_delete(self):
        created = self.new_class()
        self.placement.delete_resource_class(created)
        self.placement.delete_resource_class(created.name)
        with self.assertRaises(exceptions.NotFoundException):
            self.placement.delete_resource_class(created.name, ignore_missing=False)


class Traits(ProxyCase):
    def test_create_and_get(self):
        name = custom_name()
        self.assertEqual(name, self.placement.create_trait(name).name)
        self.assertEqual(name, self.placement.get_trait(name).id)
        with self.assertRaises(exceptions.NotFoundException):
            self.placement.get_trait(custom_name())

    def test_list_with_each_filter(self):
        name, provider = custom_name(), self.provider()
        self.placement.create_trait(name)

        def listed(**query):
            return {trait.name for trait in self.placement.traits(**query)}

        self.assertLessEqual({"HW_CPU_X86_AVX", name}, listed())
        self.assertEqual({name}, listed(name=f"startswith:{name}"))
        self.assertNotIn(name, listed(associated=True))
        traits = self.placement.get_resource_provider_trait(provider)
        self.placement.set_resource_provider_trait(traits, traits=[name])
        self.assertIn(name, listed(associated=True))

    def test_delete(self):
        name = custom_name()
        self.placement.create_trait(name)
        self.placement.delete_trait(name)
        self.placement.delete_trait(name)
        with self.assertRaises(exceptions.NotFoundException):
            self.placement.delete_trait(name, ignore_missing=False)

    def test_traits_of_a_provider(self):
        provider = self.provider()
        traits = self.placement.get_resource_provider_trait(provider)
        self.assertEqual(([], 0), (traits.traits, traits.resource_provider_generation))
        wanted = ["HW_CPU_X86_AVX", "STORAGE_DISK_SSD"]
        updated = self.placement.set_resource_provider_trait(traits, traits=wanted)
        self.assertEqual(set(wanted), set(updated.traits))
        self.assertEqual(1, updated.resource_provider_generation)
        self.placement.delete_resource_provider_trait(provider)
        self.assertEqual([], self.placement.get_resource_provider_trait(provider.id).traits)


class Allocations(ProxyCase):
    def test_claim_and_get(self):
        host, project, user = self.host(), new_uuid(), new_uuid()
        claimed = self.claim(host, {"VCPU": 2}, project_id=project, user_id=user)
        found = self.placement.get_allocation(claimed.id)
        self.assertEqual({"VCPU": 2}, found.allocations[host.id]["resources"])
        self.assertEqual((project, user), (found.project_id, found.user_id))
        self.assertEqual(("INSTANCE", 1), (found.consumer_type, found.consumer_generation))

    def test_more_than_there_is_is_refused(self):
        host = self.host(vcpus=2)
        with self.refused(exceptions.ConflictException, "Unable to allocate inventory"):
            self.claim(host, {"VCPU": 3})

    def test_update_replaces(self):
        host = self.host()
        claimed = self.claim(host, {"VCPU": 2})
        self.placement.update_allocation(
            claimed.id, allocations={host.id: {"resources": {"MEMORY_MB": 512}}},
            project_id=claimed.project_id, user_id=claimed.user_id,
            consumer_generation=1, consumer_type="INSTANCE",
        )  # fmt: skip
        usages = self.placement.fetch_resource_provider_usages(host.id).usages
        self.assertEqual({"VCPU": 0, "MEMORY_MB": 512}, usages)

    def test_create_for_several_consumers_is_all_or_nothing(self):
        host, project, user = self.host(vcpus=4), new_uuid(), new_uuid()

        def wanted(vcpus):
            return {
                "allocations": {host.id: {"resources": {"VCPU": vcpus}}},
                "project_id": project, "user_id": user,
                "consumer_generation": None, "consumer_type": "INSTANCE",
            }  # fmt: skip

        with self.assertRaises(exceptions.ConflictException):
            self.placement.create_allocations({new_uuid(): wanted(3), new_uuid(): wanted(2)})
        self.assertEqual(0, self.placement.fetch_resource_provider_usages(host).usages["VCPU"])
        self.placement.create_allocations({new_uuid(): wanted(2), new_uuid(): wanted(2)})
        self.assertEqual(4, self.placement.fetch_resource_provider_usages(host).usages["VCPU"])

    def test_delete(self):
        host = self.host()
        claimed = self.claim(host, {"VCPU": 2})
        self.placement.delete_allocation(claimed.id)
        self.placement.delete_allocation(claimed.id)
        with self.assertRaises(exceptions.NotFoundException):
            self.placement.delete_allocation(claimed.id, ignore_missing=False)
        self.assertEqual(0, self.placement.fetch_resource_provider_usages(host).usages["VCPU"])

    def test_allocations_of_a_provider(self):
        host = self.host()
        claims = {self.claim(host, {"VCPU": n}).id: {"VCPU": n} for n in (1, 2)}
        listed = list(self.placement.resource_provider_allocations(host))
        self.assertEqual(claims, {found.consumer_id: found.resources for found in listed})
        self.assertEqual({3}, {found.resource_provider_generation for found in listed})

    def test_candidates_can_be_claimed(self):
        host = self.host()
        candidates = list(
            self.placement.allocation_candidates(
                resources="VCPU:2,MEMORY_MB:512", in_tree=host.id, limit=5
            )
        )
        self.assertEqual(1, len(candidates))
        candidate = candidates[0]
        resources = {"VCPU": 2, "MEMORY_MB": 512}
        self.assertEqual({host.id: {"resources": resources}}, candidate.allocations)
        self.assertEqual({"": [host.id]}, candidate.mappings)
        summary = candidate.provider_summaries[host.id]
        self.assertEqual({"capacity": 8, "used": 0}, summary["resources"]["VCPU"])
        self.claim(host, candidate.allocations[host.id]["resources"])
        self.assertEqual(resources, self.placement.fetch_resource_provider_usages(host).usages)


class Usages(ProxyCase):
    def test_by_project_user_and_type(self):
        host, project, user = self.host(), new_uuid(), new_uuid()
        self.claim(host, {"VCPU": 2}, project_id=project, user_id=user)
        self.claim(host, {"VCPU": 1, "MEMORY_MB": 256}, project_id=project)
        self.claim(host, {"VCPU": 4})

        def used(**query):
            found = self.placement.usages(project_id=project, **query)
            return {u.consumer_type: (u.consumer_count, u.resources) for u in found}

        both = (2, {"VCPU": 3, "MEMORY_MB": 256})
        self.assertEqual({"INSTANCE": both}, used())
        self.assertEqual({"INSTANCE": (1, {"VCPU": 2})}, used(user_id=user))
        self.assertEqual({"INSTANCE": both}, used(consumer_type="INSTANCE"))
        self.assertEqual({"all": both}, used(consumer_type="all"))

    def test_of_a_provider(self):
        host = self.host()
        self.claim(host, {"VCPU": 2})
        fetched = self.placement.fetch_resource_provider_usages(host)
        self.assertEqual({"VCPU": 2, "MEMORY_MB": 0}, fetched.usages)


class EveryMethod(unittest.TestCase):
    """Runs last."""

    def test_every_public_method_of_the_proxy_was_called(self):
        members = vars(_proxy.Proxy).items()
        methods = {name for name, value in members if callable(value) and name[0] != "_"}
        self.assertEqual(set(), methods - CALLED)


def new_uuid() -> str:
    return str(uuid.uuid4())


def custom_name() -> str:
    return f"CUSTOM_{uuid.uuid4().hex.upper()}"


def tests(server: str) -> unittest.TestSuite:
    """All tests of this file, to be run against the server at that URL."""
    ProxyCase.server = server
    loader = unittest.defaultTestLoader
    cases = [
        ResourceProviders, Aggregates, Inventories, ResourceClasses, Traits,
        Allocations, Usages, EveryMethod,
    ]  # fmt: skip
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)
