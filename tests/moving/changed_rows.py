"""Rows that Berth stores in another way than they are: each has a line in the report."""

from moving_case import Request, berth, send, uuid
from odd_rows import CREATED, Source

NO_TIME = "times of change that are missing or cannot be read"
MERGED = "projects, users and types of consumers that are one once U+FFFD stands for a NUL"


class Changed(Source):
    """What becomes of each, and what is told."""

    def setUp(self) -> None:
        super().setUp()
        self.vcpu = self.class_id("VCPU")
        self.write(
            "insert into projects (id, external_id) values (1, 'p'), (2, 'q')",
            "insert into users (id, external_id) values (1, 'u'), (2, 'v')",
            self.provider(1, "root", 1),
            self.inventory(1, self.vcpu),
        )

    def consumer(self, number: int, spelled: str, owner: int = 1, generation: int = 5) -> str:
        return (
            "insert into consumers (id, uuid, project_id, user_id, generation) values "
            f"({number}, '{spelled}', {owner}, {owner}, {generation})"
        )

    def test_providers_without_name_generation_or_usual_uuid(self) -> None:
        self.write(
            self.provider(2, "x", 2), self.provider(3, "y", 3), self.provider(4, "z", 4),
            "update resource_providers set name = null where id = 2",
            "update resource_providers set generation = null where id = 3",
            "update resource_providers set uuid = upper(uuid) where id = 4",
        )  # fmt: skip
        self.assertEqual(self.findings(self.imports(self.source)), {
            "providers without a name": [f"provider {uuid(2)}: its UUID is its name"],
            "providers without a generation": [f"provider {uuid(3)}: its generation is 0"],
            "providers whose UUID has another spelling": [f"provider {uuid(4).upper()}: shown as {uuid(4)}"],
        })
        stored = "select name, generation, uuid from providers where id > 1 order by id"
        self.assertEqual(self.rows(stored).splitlines(), [
            f"{uuid(2)}|7|{uuid(2)}", f"y|0|{uuid(3)}", f"z|7|{uuid(4)}",
        ])  # fmt: skip

    def test_times_that_are_missing_or_cannot_be_read(self) -> None:
        self.write(
            self.consumer(1, uuid(101)),
            self.allocation(1, uuid(101), self.vcpu),
            "insert into traits (id, name) values (9001, 'CUSTOM_TIMELESS')",
            "update resource_providers set created_at = null",
            "update inventories set updated_at = 'yesterday'",
            "update allocations set created_at = null",
        )
        now = "the time of the import is used instead"
        self.assertEqual(self.findings(self.imports(self.source)), {NO_TIME: [
            f"1 of the allocations on provider {uuid(1)}: {now}",
            f"inventory of VCPU of provider {uuid(1)}: {now}",
            f"provider {uuid(1)}: {now}",
            f"trait CUSTOM_TIMELESS: {now}",
        ]})  # fmt: skip

    def test_consumers_that_stand_twice(self) -> None:
        twice = "abcdef00-0000-4000-8000-000000000001"
        self.write(
            self.consumer(1, twice, owner=1, generation=5),
            self.consumer(2, twice.upper(), owner=2, generation=3),
            self.allocation(1, twice, self.vcpu, 2),
            self.allocation(1, twice.upper(), self.vcpu, 3),
        )
        found = self.findings(self.imports(self.source))
        self.assertEqual(found["consumers that stand twice"], [
            f"consumer {twice.upper()}, generation 3, project q, user v, type none: one consumer, with generation 5, "
            "project p, user u and type none"
        ])  # fmt: skip
        self.assertEqual(self.rows("select used from allocations"), "5")

    def test_projects_that_differ_in_a_nul_only(self) -> None:
        self.write(
            "update projects set external_id = 'a' || char(0) || 'b' where id = 1",
            "update projects set external_id = 'a\ufffdb' where id = 2",
            "insert into users (id, external_id) values (3, 'really \ufffd')",
            self.consumer(1, uuid(101), owner=1), self.consumer(2, uuid(102), owner=2),
            self.allocation(1, uuid(101), self.vcpu, 2), self.allocation(1, uuid(102), self.vcpu, 3),
        )  # fmt: skip
        self.assertEqual(self.findings(self.imports(self.source)), {
            # A name that has U+FFFD has no NUL.
            "names with a NUL": ["project a\ufffdb: the NUL is replaced by U+FFFD"],
            MERGED: ["project a\ufffdb, row 2: one with row 1: what both have is counted together"],
        })
        with self.serving() as server:
            asked = Request("GET", "/usages?project_id=a%EF%BF%BDb", "1.30")
            self.assertEqual(send(server.url, asked).json()["usages"], {"VCPU": 5})

    def test_traits_that_differ_in_a_nul_only_are_refused(self) -> None:
        self.write(
            f"insert into traits (id, name, created_at) values (9001, 'A' || char(0), {CREATED}), "
            f"(9002, 'A\ufffd', {CREATED})"
        )
        self.assertIn("traits: the rows with id 9001, 9002 have the same name, A\ufffd.", self.refused(self.source))

    def test_allocations_of_what_is_left_out(self) -> None:
        disk, memory = self.class_id("DISK_GB"), self.class_id("MEMORY_MB")
        self.write(
            self.inventory(1, disk), self.inventory(1, memory), self.inventory(1, 9999),
            f"update inventories set reserved = -1 where resource_class_id = {disk}",
            f"update inventories set allocation_ratio = 9e999 where resource_class_id = {memory}",
            self.consumer(1, uuid(101)),
            self.allocation(1, uuid(101), self.vcpu), self.allocation(1, uuid(101), disk),
            self.allocation(1, uuid(101), memory), self.allocation(1, uuid(101), 9999),
            self.allocation(1, uuid(101), self.class_id("VGPU")),
        )  # fmt: skip
        held, stock = f"consumer {uuid(101)}: 1 of", f"provider {uuid(1)}"
        so_is = 'left out: so is the inventory, see "inventories that cannot be"'
        amounts = "min_unit 1, max_unit 10, step_size 1, allocation_ratio"
        self.assertEqual(self.findings(self.imports(self.source)), {
            "allocations that cannot be": [
                f"{held} 9999 (gone) on {stock}: left out: there is no such resource class",
                f"{held} DISK_GB on {stock}: {so_is}",
                f"{held} MEMORY_MB on {stock}: {so_is}",
                f"{held} VGPU on {stock}: left out: the provider has no inventory of it",
            ],
            "inventories that cannot be": [
                f"{stock}, 9999 (gone): total 10, reserved 0, {amounts} 1.5: left out",
                f"{stock}, DISK_GB: total 10, reserved -1, {amounts} 1.5: left out",
                f"{stock}, MEMORY_MB: total 10, reserved 0, {amounts} Infinity: left out",
            ],
        })
        self.assertEqual(berth("db", "check", "--database-url", self.url).stdout, "0 faults\n")

    def test_sums_beyond_64_bits(self) -> None:
        self.write(
            self.consumer(1, uuid(101)), self.consumer(2, uuid(102)),
            self.allocation(1, uuid(101), self.vcpu, 2**63 - 1), self.allocation(1, uuid(102), self.vcpu, 1),
        )  # fmt: skip
        output = self.refused(self.source)
        self.assertIn(f"what all consumers have of VCPU on provider {uuid(1)} adds up to {2**63}, and Berth", output)
        self.write(f"update allocations set consumer_id = '{uuid(101)}'")
        output = self.refused(self.source)
        self.assertIn(f"what consumer {uuid(101)} has of VCPU on provider {uuid(1)} adds up to {2**63}, and", output)

    def test_a_name_that_is_not_utf_8(self) -> None:
        self.write(self.provider(2, "x", 2), "update resource_providers set name = cast(x'ff41' as text) where id = 2")
        for options in ((), ("--dry-run",)):
            output = self.refused(self.source, *options)
            self.assertIn("resource_providers, the next row after the one with id 1: uuid or name is not UTF-8", output)

    def test_schemas_that_are_half_made(self) -> None:
        self.write("insert into alembic_version values ('611cd6dffd7b')")
        self.assertIn("the table alembic_version has 2 rows (611cd6dffd7b, ", self.refused(self.source))
        self.write(
            "delete from alembic_version where version_num = '611cd6dffd7b'",
            "alter table resource_providers rename column generation to former",
            "alter table inventories rename column updated_at to former",
        )
        output = self.refused(self.source)
        self.assertIn("it has no column resource_providers.generation, inventories.updated_at, which version", output)
        self.assertIn("`placement-manage db sync`", output)
