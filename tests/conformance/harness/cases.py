"""Running tests of the unittest kind, and telling of those that fail."""

import sys
import unittest


class Result(unittest.TestResult):
    """Prints what fails as it fails, and counts."""

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._report(test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._report(test, self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._report(subtest, (self.failures + self.errors)[-1][1])

    @staticmethod
    def _report(test, text: str) -> None:
        # The clients log everything they do; what they say of a failure is enough.
        shown = [line for line in text.splitlines() if "DEBUG [" not in line]
        lines = [f"FAIL  {test.id()}", *(f"      {line}" for line in shown)]
        print("\n".join(lines), file=sys.__stdout__, flush=True)


def flat(suite):
    """The tests of a suite of suites."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test
