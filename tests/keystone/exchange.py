"""Requests byte for byte as a test wants them, and their answers."""

import dataclasses
import http.client
import json
import ssl
import urllib.parse

# Asking as late as this must not be; it only keeps a hanging server from hanging the suite.
PATIENCE_SECONDS = 60
NEWEST = "placement 1.39"


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self):
        return json.loads(self.body)


def ask(
    url: str,
    method: str = "GET",
    token: str | bytes | None = None,
    headers: dict[str, str | bytes] | None = None,
    body=None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send one request on a connection of its own. `body` is sent as JSON unless it is bytes."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.netloc, timeout=PATIENCE_SECONDS, context=tls)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_SECONDS)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = {"Accept": "application/json", "OpenStack-API-Version": NEWEST, "Connection": "close"}
    sent |= headers or {}
    if token is not None:
        sent["X-Auth-Token"] = token
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
        sent["Content-Length"] = str(len(body))
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()
