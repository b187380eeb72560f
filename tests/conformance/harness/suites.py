"""Running the tests of modules, all or those that are chosen."""

import argparse
import unittest
from types import ModuleType


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-k", metavar="PATTERN", action="append", help="only these tests")


def run(modules: list[ModuleType], patterns: list[str] | None) -> int:
    """Run the tests of modules whose names match one of the patterns; the exit code."""
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*" for pattern in patterns] if patterns else None
    tests = unittest.TestSuite(loader.loadTestsFromModule(it) for it in modules)
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    return 0 if result.wasSuccessful() and result.testsRun else 1
