"""A gate in front of Keystone: passes requests on and counts them, or misbehaves as it is told."""

import collections
import contextlib
import dataclasses
import http.client
import http.server
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable

# In requests and answers; what matters only between two machines is left out.
PASSED_ON = ("Content-Type", "X-Auth-Token", "X-Subject-Token", "Accept", "OpenStack-Identity-Access-Rules")
PASSED_BACK = ("Content-Type", "X-Subject-Token", "WWW-Authenticate", "Location", "Vary")


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request that came to the gate."""

    method: str
    path: str
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def is_login(self) -> bool:
        return self.method == "POST" and self.path.startswith("/v3/auth/tokens")

    @property
    def is_validation(self) -> bool:
        return self.method in ("GET", "HEAD") and self.path.startswith("/v3/auth/tokens")

    @property
    def subject(self) -> str | None:
        return self.headers["X-Subject-Token"]


@dataclasses.dataclass
class Reply:
    """What the gate says. `cut` leaves out so much of the end of the body, and hangs up."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    cut: int = 0


# What is done with a request: a reply, None to hang up, or `passed_on()`.
Behaviour = Callable[["Gate", Seen], Reply | None]


class Gate:
    """The gate. It may be closed, and opened again on the same port."""

    def __init__(self, keystone: str, tls: ssl.SSLContext | None = None) -> None:
        self._keystone = urllib.parse.urlsplit(keystone).netloc
        self._tls = tls
        self._port = 0
        self._server: Server | None = None
        self.behaviour: Behaviour = passed_on
        self.seen: list[Seen] = []
        # Tokens that were issued through the gate: the own ones of those who validate.
        self.issued: list[str] = []

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def __enter__(self) -> "Gate":
        self.open()
        return self

    def __exit__(self, *_exception) -> None:
        self.close()

    def open(self) -> None:
        if self._server:
            return
        self._server = Server(self._port, self, self._tls)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Nobody listens any more, and all connections break."""
        if self._server:
            self._server.shutdown()
            self._server.hang_up()
            self._server = None

    @contextlib.contextmanager
    def closed(self):
        self.close()
        try:
            yield
        finally:
            self.open()

    @contextlib.contextmanager
    def behaving(self, behaviour: Behaviour):
        self.behaviour = behaviour
        try:
            yield
        finally:
            self.behaviour = passed_on

    @property
    def logins(self) -> int:
        """How many requests for a token there were."""
        return sum(seen.is_login for seen in list(self.seen))

    def validations(self, token: str) -> int:
        """How often someone asked about this token."""
        return sum(seen.is_validation and seen.subject == token for seen in list(self.seen))

    def pass_on(self, seen: Seen) -> Reply:
        """Ask Keystone itself."""
        connection = http.client.HTTPConnection(self._keystone, timeout=60)
        headers = {name: seen.headers[name] for name in PASSED_ON if seen.headers[name]}
        try:
            connection.request(seen.method, seen.path, seen.body or None, headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        back = {name: response.headers[name] for name in PASSED_BACK if response.headers[name]}
        if seen.is_login and response.status == 201:
            self.issued.append(back["X-Subject-Token"])
        return Reply(response.status, body, back)


class Server(http.server.ThreadingHTTPServer):
    """Serves a gate, and can break all its connections at once."""

    daemon_threads = True
    request_queue_size = 200

    def __init__(self, port: int, gate: Gate, tls: ssl.SSLContext | None) -> None:
        self._open: set[socket.socket] = set()
        self._tls = tls
        self.gate = gate
        super().__init__(("127.0.0.1", port), Handler)

    def process_request(self, request, client_address):
        self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        if self._tls:
            # Here and not where connections are accepted: a handshake takes as long as the client.
            try:
                request = self._tls.wrap_socket(request, server_side=True)
            except OSError:
                return
            self._open.add(request)
        super().process_request_thread(request, client_address)

    def shutdown_request(self, request):
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        pass

    def hang_up(self) -> None:
        self.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(http.server.BaseHTTPRequestHandler):
    """Notes a request and does what the gate's behaviour says."""

    protocol_version = "HTTP/1.1"
    # Without it, head and body of an answer go out apart, 40 ms after each other.
    wbufsize = -1

    def _handle(self) -> None:
        gate = self.server.gate
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = Seen(self.command, self.path, self.headers, body)
        gate.seen.append(seen)
        reply = gate.behaviour(gate, seen)
        if reply is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body[: len(reply.body) - reply.cut])
        self.close_connection |= reply.cut > 0

    do_GET = do_POST = do_DELETE = do_HEAD = _handle

    def log_message(self, format, *arguments):
        pass


def passed_on(gate: Gate, seen: Seen) -> Reply | None:
    """As Keystone itself."""
    return gate.pass_on(seen)


def answering(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """The same answer to everything."""
    return lambda _gate, _seen: Reply(status, body, {k.replace("_", "-"): v for k, v in headers.items()})


def hanging_up(_gate: Gate, _seen: Seen) -> Reply | None:
    """No answer, and the end of the connection."""
    return None


def slow(seconds: float) -> Behaviour:
    """The right answer, late."""

    def behaviour(gate: Gate, seen: Seen) -> Reply | None:
        time.sleep(seconds)
        return gate.pass_on(seen)

    return behaviour


class Holding:
    """The right answer, but about tokens that begin so only once they are let go."""

    def __init__(self, beginning: str) -> None:
        self._beginning = beginning
        self._go = threading.Event()
        self._holds = threading.Semaphore(0)

    def __call__(self, gate: Gate, seen: Seen) -> Reply | None:
        if seen.is_validation and seen.subject.startswith(self._beginning):
            self._holds.release()
            self._go.wait()
        return gate.pass_on(seen)

    def await_questions(self, number: int, seconds: float) -> None:
        """Wait until so many questions more have come."""
        for _ in range(number):
            if not self._holds.acquire(timeout=seconds):
                raise RuntimeError(f"not {number} questions in {seconds} s")

    def let_go(self) -> None:
        self._go.set()


def cut_short(gate: Gate, seen: Seen) -> Reply | None:
    """Half the right answer."""
    reply = gate.pass_on(seen)
    reply.cut = len(reply.body) // 2
    return reply


def only(which: str, behaviour: Behaviour) -> Behaviour:
    """Misbehave only at `is_login` or `is_validation`."""
    return lambda gate, seen: (behaviour if getattr(seen, which) else passed_on)(gate, seen)


def living(seconds: float) -> Behaviour:
    """Issue tokens that are said to end so soon."""

    def behaviour(gate: Gate, seen: Seen) -> Reply | None:
        reply = gate.pass_on(seen)
        if seen.is_login:
            issued = json.loads(reply.body)
            ends = time.gmtime(time.time() + seconds)
            issued["token"]["expires_at"] = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", ends)
            reply.body = json.dumps(issued).encode()
        return reply

    return behaviour


def refusing(own: collections.abc.Container[str]) -> Behaviour:
    """Know nothing of these tokens of the one who asks."""

    def behaviour(gate: Gate, seen: Seen) -> Reply | None:
        if seen.is_validation and seen.headers["X-Auth-Token"] in own:
            return Reply(401, b'{"error": {"code": 401, "title": "Unauthorized", "message": ""}}',
                         {"Content-Type": "application/json"})  # fmt: skip
        return gate.pass_on(seen)

    return behaviour
