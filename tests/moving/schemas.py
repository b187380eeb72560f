"""Every version of the reference's schema, as its own migrations make it."""

import pathlib
import subprocess
import sys
import tempfile

import sqlalchemy

from moving_case import Moving, uuid
from odd_rows import FIRST_SCHEMA, Source

# With the first that has types of consumers, all that follow have them.
SCHEMAS = (FIRST_SCHEMA, "b5c396305c25", "611cd6dffd7b", "422ece571366", "a082b8bb98d0")
WITH_TYPES = SCHEMAS[3:]

UPGRADE = """
import sys
from oslo_config import cfg
from placement import conf, db_api
from placement.db.sqlalchemy import migration
url, version = sys.argv[1:]
config = cfg.ConfigOpts()
conf.register_opts(config)
config.set_override("connection", url, "placement_database")
config([], project="placement", default_config_files=[])
db_api.configure(config)
migration.upgrade(version)
"""


class Schemas(Source):
    """What a database of each version has is brought over."""

    def setUp(self) -> None:
        Moving.setUp(self)

    def fill(self, version: str) -> None:
        """Make the database of a version of the schema, with a consumer that holds something."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.source = f"sqlite:///{folder}/{version}.sqlite"
        subprocess.run([sys.executable, "-c", UPGRADE, self.source, version], check=True)
        self.engine = sqlalchemy.create_engine(self.source)
        self.addCleanup(self.engine.dispose)
        # The service has not been started, so that standard classes have no rows, as before Train: 0 is VCPU.
        self.write(
            "insert into projects (id, external_id) values (1, 'p')",
            "insert into users (id, external_id) values (1, 'u')",
            self.provider(1, "root", 1),
            self.inventory(1, 0),
            f"insert into consumers (id, uuid, project_id, user_id, generation) values (1, '{uuid(101)}', 1, 1, 5)",
            self.allocation(1, uuid(101), 0),
        )
        if version in WITH_TYPES:
            self.write(
                "insert into consumer_types (id, name) values (7, 'INSTANCE')",
                "update consumers set consumer_type_id = 7",
            )

    def check(self, version: str) -> None:
        self.fill(version)
        report = self.imports(self.source)
        self.assertEqual((report["schema"], report["findings"]), (version, []))
        stored = (
            "select c.uuid, p.external_id, u.external_id, c.generation, coalesce(t.name, ''), r.name, k.name, a.used "
            "from allocations a join consumers c on c.id = a.consumer_id join projects p on p.id = c.project_id "
            "join users u on u.id = c.user_id left join consumer_types t on t.id = c.consumer_type_id "
            "join providers r on r.id = a.provider_id join resource_classes k on k.id = a.class_id"
        )
        kind = "INSTANCE" if version in WITH_TYPES else ""
        self.assertEqual(self.rows(stored).split("|"), [uuid(101), "p", "u", "5", kind, "root", "VCPU", "1"])


for _version in SCHEMAS:
    def _test(self, version: str = _version) -> None:
        self.check(version)

    setattr(Schemas, f"test_schema_{_version}", _test)
