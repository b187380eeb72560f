"""Ports for servers whose address is chosen before they start."""

import fcntl
import os
import pathlib
import socket
import tempfile

# As in tests/api/support/process.rs.
_FIRST, _COUNT = 15000, 17000
_leases: list[int] = []


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1 that no other test on this machine is given.

    The port belongs to this process until it ends: the process holds a lock on a file named after
    it. It is below Linux's ephemeral ports, so no outgoing connection takes it before a server
    listens there, or while that server restarts.
    """
    directory = pathlib.Path(tempfile.gettempdir(), f"berth-test-ports-{os.getuid()}")
    directory.mkdir(exist_ok=True)
    start = os.getpid() * 97
    for offset in range(_COUNT):
        port = _FIRST + (start + offset) % _COUNT
        if _lease(directory / str(port)):
            if is_free(port):
                return port
    raise RuntimeError("no free port")


def _lease(path: pathlib.Path) -> bool:
    """Lock `path` for the life of this process. Return whether nobody else holds it."""
    lease = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lease)
        return False
    _leases.append(lease)
    return True


def is_free(port: int) -> bool:
    """Whether a server could listen at this port of 127.0.0.1."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
