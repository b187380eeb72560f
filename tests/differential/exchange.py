"""One request to one server, and what came back. Nothing is interpreted on the way."""

import dataclasses
import http.client
import json
import urllib.parse

# What both servers are told they are called, so that what they say of themselves can be compared.
HOST = "placement.example"
ANSWER_WITHIN_SECONDS = 120
# Headers that a report does without.
BORING = {"date", "server", "content-length", "x-openstack-request-id", "vary", "cache-control"}


@dataclasses.dataclass
class Request:
    """A request as it is sent. `body` is sent as it is if it is bytes, else as JSON."""

    method: str
    path: str
    version: str | None = None
    query: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    body: object = None
    # The rest of the headers; those of a value None are left out.
    headers: dict[str, str | None] = dataclasses.field(default_factory=dict)
    # Appended to the query without encoding.
    raw_query: str = ""
    # The kind of request, for the report and for the list of known differences.
    kind: str = ""

    @property
    def target(self) -> str:
        query = urllib.parse.urlencode(self.query, safe=":,!")
        query = "&".join(part for part in (query, self.raw_query) if part)
        return f"{self.path}?{query}" if query else self.path

    @property
    def content(self) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body).encode()

    def all_headers(self) -> dict[str, str]:
        headers = {"Host": HOST, "X-Auth-Token": "admin"}
        if self.version:
            headers["OpenStack-API-Version"] = f"placement {self.version}"
        content = self.content
        if content is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        return {k: v for k, v in (headers | self.headers).items() if v is not None}

    @property
    def minor(self) -> int:
        """The minor number of the version asked for; -1 if there is no such version."""
        if self.version is None:
            return 0
        if self.version == "latest":
            return 39
        major, _, minor = self.version.partition(".")
        return int(minor) if major == "1" and minor.isdecimal() and int(minor) < 40 else -1

    def __str__(self) -> str:
        lines = [f"{self.method} {self.target} @{self.version}"]
        own = {k: v for k, v in self.headers.items()}
        if own:
            lines.append(f"headers {own}")
        if self.content is not None:
            text = self.content.decode(errors="replace")
            lines.append(text if len(text) < 2000 else f"{text[:2000]} ...")
        return "\n".join(lines)


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self):
        """The body as JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def text(self) -> str:
        """The body as text, whatever its type."""
        return self.body.decode(errors="replace")

    def detail(self) -> str:
        """The detail of the error this is, if it is one."""
        try:
            return self.json()["errors"][0]["detail"]
        except (TypeError, KeyError, IndexError):
            return ""

    def __str__(self) -> str:
        text = self.text()
        headers = {k: v for k, v in self.headers.items() if k not in BORING}
        return f"{self.status} {headers}\n{text if len(text) < 1500 else text[:1500] + ' ...'}"


def send(url: str, request: Request) -> Answer:
    """Send the request to the server at `url`."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(
        where.hostname, where.port, timeout=ANSWER_WITHIN_SECONDS
    )
    try:
        connection.putrequest(
            request.method, request.target, skip_host=True, skip_accept_encoding=True
        )
        for name, value in request.all_headers().items():
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders(request.content)
        answer = connection.getresponse()
        # What stands in several headers of one name is one list.
        headers: dict[str, str] = {}
        for name, value in answer.getheaders():
            name = name.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Answer(answer.status, headers, answer.read())
    finally:
        connection.close()
