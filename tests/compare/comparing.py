"""The reference with Berth after an import, and `berth compare` on them."""

import json
import tempfile
import unittest

import sqlalchemy
from harness.commands import berth, serving
from harness.servers import Berth, Reference

from filling import Cloud


class Both(unittest.TestCase):
    """The reference, filled, and Berth with what it holds."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="compare-"))
        cls.source = f"sqlite:///{folder}/placement.sqlite"
        cls.reference = cls.enterClassContext(Reference(cls.source).start("compare-reference"))
        Cloud(cls.reference.url).fill()
        cls.own = cls.enterClassContext(Berth())
        cls.own._cluster.create("compare", "berth_template")
        database = cls.own._cluster.url("compare")
        done = berth("import", "--from-database", cls.source, "--database-url", database)
        assert done.returncode == 0, done.stderr
        cls.berth = cls.enterClassContext(serving("compare-berth", database))
        cls.engine = sqlalchemy.create_engine(cls.source)
        cls.addClassCleanup(cls.engine.dispose)

    def compares(self, *options, code: int = 0, left=None, right=None) -> dict:
        """Compare; the report."""
        done = berth("compare", left or self.reference.url, right or self.berth.url, "--json", *options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def fails(self, *arguments, **environment: str) -> str:
        """Try to compare, which must not be possible; what is said."""
        done = berth("compare", *arguments, **environment)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr
