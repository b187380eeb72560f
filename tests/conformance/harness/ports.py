"""Ports for servers that are told beforehand where to listen."""

import os
import socket

_given: set[int] = set()


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1. Each call in a process returns a different one.

    The port is below Linux's ephemeral ports, so no outgoing connection takes it before a server
    listens there, or while that server restarts.
    """
    for port in range(15000 + (os.getpid() * 97) % 15000, 32000):
        if port not in _given and is_free(port):
            _given.add(port)
            return port
    raise RuntimeError("no free port")


def is_free(port: int) -> bool:
    """Whether a server could listen at this port of 127.0.0.1."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
