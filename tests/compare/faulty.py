"""A proxy in front of a service that fails as it is told."""

import contextlib
import http.client
import http.server
import threading
import urllib.parse

from harness.commands import in_thread


class Faulty(http.server.ThreadingHTTPServer):
    """Passes GET on. `answer` may answer in its place: a status and a body, or None."""

    daemon_threads = True

    def __init__(self, url: str | None, answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behind = urllib.parse.urlsplit(url) if url else None
        self.answer = answer
        self.count = 0
        self.lock = threading.Lock()

    def handle_error(self, request, client_address) -> None:
        """A client that has gone, because another answer was enough for it, is no fault."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        with server.lock:
            server.count += 1
            count = server.count
        own = server.answer(count, self.path)
        if own is None:
            connection = http.client.HTTPConnection(server.behind.hostname, server.behind.port, timeout=120)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
            connection.request("GET", self.path, headers=headers)
            found = connection.getresponse()
            status, body = found.status, found.read()
            headers = [(k, v) for k, v in found.getheaders()
                       if k.lower() not in ("content-length", "connection", "transfer-encoding")]
            connection.close()
        else:
            (status, body), headers = own, [("Content-Type", "text/plain")]
        self.send_response_only(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):
        pass


@contextlib.contextmanager
def faulty(url: str | None, answer):
    """Such a proxy, until the block ends."""
    with in_thread(Faulty(url, answer)) as server:
        yield server
