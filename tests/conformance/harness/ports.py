"""Ports for servers that are told beforehand where to listen."""

import os
import socket

_given: set[int] = set()


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody uses, and that was not given before.

    It lies below the ports that the kernel gives to connections, so that it stays free until the
    server listens there, and when a server that was stopped starts again.
    """
    for port in range(15000 + (os.getpid() * 97) % 15000, 32000):
        if port in _given:
            continue
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise RuntimeError("no free port")
