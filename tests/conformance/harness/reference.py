"""Serve the reference over real HTTP: one process, one thread, by default on SQLite.

Only there to prove a suite: what does not pass against the reference is a
fault of the suite. Started by servers.py; not for any other use.
"""

import argparse
import os
import pathlib
from wsgiref import simple_server

CONFIGURATION = """
[DEFAULT]
use_stderr = true
[api]
auth_strategy = noauth2
[placement_database]
connection = {connection}
sync_on_startup = true
[oslo_policy]
enforce_new_defaults = {new_defaults}
policy_file = {folder}/policy.yaml
"""

CORS = """
[cors]
allowed_origin = http://valid.example.com
allow_headers = openstack-api-version
"""


class Handler(simple_server.WSGIRequestHandler):
    """wsgiref's handler, without its inventions and its access log."""

    def get_environ(self):
        environ = super().get_environ()
        # wsgiref says text/plain for a request that names no type.
        if self.headers.get("content-type") is None:
            environ.pop("CONTENT_TYPE", None)
        return environ

    def log_message(self, format, *arguments):
        pass


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--directory", type=pathlib.Path, required=True)
    options.add_argument("--needs", default="")
    options.add_argument("--connection", help="another database than SQLite's in the directory")
    chosen = options.parse_args()
    configure(chosen.directory, set(chosen.needs.split(",")), chosen.connection)

    from placement import wsgi

    application = wsgi.init_application()
    server = simple_server.make_server(
        "127.0.0.1", chosen.port, application, handler_class=Handler
    )
    server.serve_forever()


def configure(folder: pathlib.Path, needs: set[str], connection: str | None = None) -> None:
    """Write placement.conf and policy.yaml for the configurations in `needs`."""
    connection = connection or f"sqlite:///{folder}/placement.sqlite"
    new_defaults = "secure-rbac" in needs
    text = CONFIGURATION.format(folder=folder, connection=connection, new_defaults=new_defaults)
    if "cors" in needs:
        text += CORS
    (folder / "placement.conf").write_text(text)
    (folder / "policy.yaml").write_text(open_policy() if "open-policy" in needs else "{}\n")
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = str(folder)


def open_policy() -> str:
    """A policy that lets anyone do anything."""
    from placement import policies

    names = (rule.name for rule in policies.list_rules() if rule.name != "admin_api")
    return "".join(f'"{name}": "@"\n' for name in names)


if __name__ == "__main__":
    main()
