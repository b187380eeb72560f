"""Serving WSGI applications: Keystone, and the reference."""


def uwsgi(module: str, environment: dict, processes: int, threads: int) -> list:
    """The command that serves `module`, to be completed by `http_socket`."""
    return [
        "env", *(f"{name}={value}" for name, value in environment.items()),
        "uwsgi", "--master", "--die-on-term", "--need-app", "--lazy-apps", "--disable-logging",
        "--module", module, "--processes", processes, "--threads", threads,
        "--listen", 100, "--buffer-size", 65535, "--post-buffering", 65535,
        # It closes connections, and has to be told to say so.
        "--add-header", "Connection: close",
    ]  # fmt: skip


def http_socket(port: int) -> list:
    """The options that say where to listen."""
    return ["--http-socket", f"127.0.0.1:{port}"]
