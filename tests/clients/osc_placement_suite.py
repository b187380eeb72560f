"""osc-placement's own functional suite, made to talk to a running server.

As published, each of its tests starts the reference in-process and intercepts
the client's connections to it. Here the fixture that does so is replaced by one
that hands out the address of a server that is running: the commands, and the
tests with all they expect, are the published ones.
"""

import os
import pathlib
import unittest

import fixtures
from osc_placement.tests import functional
from placement.tests.functional.fixtures import placement as in_process


class RunningServer(fixtures.Fixture):
    """Stands for the reference's PlacementFixture; an admin under noauth2."""

    endpoint = ""
    token = "admin"


def tests(server: str) -> unittest.TestSuite:
    """All tests of the suite, to be run against the server at that URL."""
    # The caller's settings (a cloud, a token) must not reach the commands; what
    # the commands print and log is shown for tests that fail, and only then.
    for variable in [name for name in os.environ if name.startswith("OS_")]:
        del os.environ[variable]
    for stream in ("STDOUT", "STDERR", "LOG"):
        os.environ[f"OS_{stream}_CAPTURE"] = "1"
    RunningServer.endpoint = server
    in_process.PlacementFixture = RunningServer
    folder = pathlib.Path(functional.__file__).parent
    top = folder.parent.parent.parent
    return unittest.TestLoader().discover(str(folder), "test_*.py", str(top))
