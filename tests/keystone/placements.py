"""The servers under test, Berth and the reference, each asking a Keystone who its callers are.

Both are given the options of `berth serve`, by name; for the reference they are
put into the words of placement.conf.
"""

import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile

from harness import servers

from wsgi import http_socket, uwsgi

# Where the names of keystonemiddleware's options are not Berth's without "keystone-".
THEIR_NAMES = {
    "timeout": "http_connect_timeout",
    "ca_file": "cafile",
    "cert_file": "certfile",
    "key_file": "keyfile",
}

CONFIGURATION = """
[DEFAULT]
use_stderr = true
[api]
auth_strategy = keystone
[placement_database]
connection = sqlite:///{folder}/placement.sqlite
sync_on_startup = true
[oslo_policy]
enforce_new_defaults = {new_defaults}
policy_file = {folder}/policy.yaml
[keystone_authtoken]
service_type = placement
{authtoken}
"""


class Berth(servers.Berth):
    """Berth, logging all it ever logs. `logs` are those of all servers that were started."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[pathlib.Path] = []

    def run(self, *arguments, **environment: str) -> subprocess.CompletedProcess:
        """Run the program to its end, with nothing but this in its environment."""
        command = [str(part) for part in (self._program, *arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)

    @contextlib.contextmanager
    def start(self, name: str, **options):
        """A server with these options, `_` for `-` in their names."""
        options = {"auth": "keystone", "log": "trace"} | options
        planner = options.pop("planner_listen", "none")
        with tempfile.TemporaryDirectory(prefix="berth-") as folder:
            # In a file: what is on the command line, everyone can see.
            file = pathlib.Path(folder) / "berth.toml"
            file.touch(mode=0o600)
            lines = (f"{key.replace('_', '-')} = {json.dumps(value)}\n" for key, value in options.items())
            file.write_text("".join(lines))
            scheme = "https" if "tls_cert" in options else "http"
            with self.serve(name, ["--config", file, "--planner-listen", planner], scheme) as server:
                self.logs.append(server.log)
                yield server


class Reference:
    """The reference, over SQLite, under uwsgi."""

    def __init__(self) -> None:
        self.logs: list[pathlib.Path] = []

    def __enter__(self) -> "Reference":
        return self

    def __exit__(self, *_exception) -> None:
        pass

    @contextlib.contextmanager
    def start(self, name: str, **options):
        """A server with these options of Berth's."""
        folder = tempfile.mkdtemp(prefix="placement-")
        try:
            _configure(pathlib.Path(folder), options)
            environment = {"OS_PLACEMENT_CONFIG_DIR": folder}
            command = uwsgi("placement.wsgi.api:application", environment, processes=1, threads=1)
            with servers.running(name, command, http_socket) as server:
                yield server
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: pathlib.Path, options: dict) -> None:
    new_defaults = options.get("enforce_new_defaults", True)
    by_id = "keystone_application_credential_id" in options
    settings = {"keystone_auth_type": "v3applicationcredential" if by_id else "password"} | options
    authtoken = ""
    for name, value in settings.items():
        if name.startswith("keystone_"):
            name = name.removeprefix("keystone_")
            authtoken += f"{THEIR_NAMES.get(name, name)} = {value}\n"
    text = CONFIGURATION.format(folder=folder, new_defaults=new_defaults, authtoken=authtoken)
    (folder / "placement.conf").write_text(text)
    (folder / "policy.yaml").write_text("{}\n")


SOURCES = {"berth": Berth, "reference": Reference}
