"""A service that answers as it is told, and remembers what it was asked: for what the reference does not do.

It speaks HTTP/1.1 with kept connections and chunked bodies, like the servers that deployments put in front.
"""

import contextlib
import http.server
import ssl
import time

from harness.commands import in_thread


class Handler(http.server.BaseHTTPRequestHandler):
    """`/echo` sends the body back, `/large/N` sends N bytes in chunks, `/slow` takes its time, other paths
    send the server's own text."""

    protocol_version = "HTTP/1.1"

    def _answer(self):
        body = self._body()
        self.server.requests.append((self.command, self.path, self.headers.items(), body))
        if self.path == "/hang-up":
            self.close_connection = True
            self.connection.close()
            return
        if self.path == "/slow":
            time.sleep(self.server.slow)
        if self.path.startswith("/large/"):
            self._send_chunks(int(self.path.rpartition("/")[2]))
            return
        text = body if self.path == "/echo" else self.server.text
        self.send_response_only(self.server.status, "As Told")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in self.server.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_HEAD = do_OPTIONS = do_POST = do_PUT = do_DELETE = _answer

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _send_chunks(self, left: int) -> None:
        self.send_response_only(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while left:
            part = b"x" * min(left, 100_000)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            left -= len(part)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, text: bytes, tls: tuple | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self.scheme = "https"
        self.text, self.status, self.headers = text, 200, []
        self.slow = 0.0
        self.requests: list[tuple] = []

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass


@contextlib.contextmanager
def serving(text: bytes = b'{"usages": {}}', tls: tuple | None = None):
    """A running server; with TLS, if it has the files of a certificate and its key."""
    with in_thread(Server(text, tls)) as server:
        yield server
