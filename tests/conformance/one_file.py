"""Run one gabbi file against a running server; write what came of it as JSON.

A process of its own for each file, because gabbi files talk to their fixtures
through the process's environment. Started by suite.py:

    one_file.py FILE.yaml SERVER_URL RESULT.json

The result: {"passed": count, "failures": [{"test", "text"}], "broken": [text]}.
"Broken" is what is never a matter of expectations: fixtures that could not be
built, and answers with a 5xx status.
"""

import http.client
import json
import pathlib
import sys
import unittest
import urllib.parse

import httpx
from gabbi import handlers, httpclient, suitemaker, utils

import gabbi_fixtures

LONGEST_ANSWER_SHOWN = 800


class Result(unittest.TestResult):
    """Collects outcomes, with the request and the answer of what failed."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0
        self.failures_told = []
        self.broken = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        self._watch_status(test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._tell(test, str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        text = f"{err[0].__name__}: {err[1]}"
        if getattr(test, "url", None) is None:
            # It never came to a request: a fixture failed. gabbi reports that
            # on the first test, and then every test of the file as skipped.
            self.broken.append(text)
        else:
            self._tell(test, text)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._tell(test, f"not run: {reason}")

    def _tell(self, test, problem: str) -> None:
        self._watch_status(test)
        # gabbi adds the whole answer to some messages; it follows below anyway.
        lines = [problem.partition(", response:\n")[0]]
        if getattr(test, "url", None) is not None:
            lines.append(f"request: {test.test_data['method']} {test.url}")
        if getattr(test, "response", None) is not None:
            answer = str(test.output)[:LONGEST_ANSWER_SHOWN]
            lines.append(f"answer: {test.response['status']} {answer}")
        self.failures_told.append({"test": test.test_data["name"], "text": "\n".join(lines)})

    def _watch_status(self, test) -> None:
        response = getattr(test, "response", None)
        if response is not None and response["status"].startswith("5"):
            self.broken.append(f"{test.test_data['name']}: answered {response['status']}")


class AnyHeaderHttp(httpclient.Http):
    """gabbi's HTTP client, able to send headers that httpx refuses to send.

    One test has a Content-Length that is no number. In-process nothing minds;
    on a real connection it has to be written past httpx.
    """

    def __init__(self, **options) -> None:
        # Certificates mean nothing here, and loading them takes longer than a test.
        super().__init__(**{**options, "cert_validate": False})

    def request(self, absolute_uri, method, body, headers, redirect, timeout):
        try:
            return super().request(absolute_uri, method, body, headers, redirect, timeout)
        except httpx.LocalProtocolError:
            return self._request_unchecked(absolute_uri, method, body, headers, timeout)

    @staticmethod
    def _request_unchecked(absolute_uri, method, body, headers, timeout):
        address = urllib.parse.urlsplit(absolute_uri)
        connection = http.client.HTTPConnection(address.netloc, timeout=timeout)
        connection.putrequest(method, absolute_uri[len(f"http://{address.netloc}") :])
        for name, value in httpx.Headers(headers).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        answered = httpx.Headers(answer.getheaders())
        answered["status"] = str(answer.status)
        answered["reason"] = answer.reason
        answered["http_protocol_version"] = f"HTTP/{answer.version / 10}"
        return answered, content


def run(file: pathlib.Path, server: str) -> Result:
    """Run all tests of `file` in order against `server`."""
    gabbi_fixtures.APIFixture.server = server
    httpclient.Http = AnyHeaderHttp
    address = urllib.parse.urlsplit(server)
    suite = suitemaker.test_suite_from_dict(
        unittest.TestLoader(),
        file.stem,
        utils.load_yaml(yaml_file=str(file)),
        str(file.parent),
        address.hostname,
        address.port,
        gabbi_fixtures,
        None,
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
    )
    result = Result()
    suite.run(result)
    return result


def main() -> None:
    file, server, output = sys.argv[1:]
    result = run(pathlib.Path(file), server)
    told = {
        "passed": result.passed,
        "failures": result.failures_told,
        "broken": result.broken,
    }
    pathlib.Path(output).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
