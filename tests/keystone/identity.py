"""A real Keystone for one run: SQLite and Fernet keys in a folder, served by uwsgi."""

import contextlib
import pathlib
import secrets
import subprocess
import sys
import time

import msgpack
from cryptography import fernet
from harness import servers

from exchange import Answer, ask
from wsgi import http_socket, uwsgi

HERE = pathlib.Path(__file__).resolve().parent
REGION = "RegionOne"
TOKEN_LIVES_SECONDS = 3600
# For how long an expired token may be used together with a service token.
EXPIRED_WINDOW_SECONDS = 24 * 3600

CONFIGURATION = """
[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///{folder}/keystone.sqlite
[token]
expiration = {lives}
allow_expired_window = {window}
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/fernet
[identity]
password_hash_rounds = 4
"""


class Keystone:
    """A running Keystone, and the hands of its administrator."""

    def __init__(self, url: str, folder: pathlib.Path, admin_password: str) -> None:
        self.url = url
        # All that nobody may read in a log.
        self.secrets = {admin_password}
        self._folder = folder
        self._token = self.authenticate(password("admin", admin_password), project("admin"))

    def call(self, method: str, path: str, body=None, token: str | None = None) -> dict:
        """Ask below /v3, as administrator unless the token is another's; return the JSON."""
        answer = ask(f"{self.url}/v3{path}", method, token or self._token, body=body)
        return _accepted(answer).json() if answer.body else {}

    def make(self, kind: str, **attributes) -> str:
        """Make a user, project, role, service or endpoint; return its id."""
        return self.call("POST", f"/{kind}s", {kind: attributes})[kind]["id"]

    def id(self, kind: str, name: str) -> str:
        """The id of the one that is called so."""
        return self.call("GET", f"/{kind}s?name={name}")[f"{kind}s"][0]["id"]

    def authenticate(self, identity: dict, scope: dict | str | None = None) -> str:
        """A token, for this scope."""
        body = {"auth": {"identity": identity} | ({"scope": scope} if scope else {})}
        answer = _accepted(ask(f"{self.url}/v3/auth/tokens", "POST", body=body))
        return self.keep(answer.headers["X-Subject-Token"])

    def revoke(self, token: str) -> None:
        headers = {"X-Subject-Token": token}
        _accepted(ask(f"{self.url}/v3/auth/tokens", "DELETE", self._token, headers))

    def ending(self, token: str, seconds: float) -> str:
        """The same token, but ending so many seconds from now, which may be in the past."""
        ends = time.time() + seconds
        keys = sorted((self._folder / "fernet").iterdir(), key=lambda file: -int(file.name))
        crypt = fernet.MultiFernet([fernet.Fernet(key.read_bytes()) for key in keys])
        packed = crypt.decrypt(token + "=" * (-len(token) % 4))
        # Its end is the only number with a fraction in it.
        parts = [ends if isinstance(part, float) else part for part in msgpack.unpackb(packed)]
        issued = int(min(time.time(), ends - TOKEN_LIVES_SECONDS))
        # With the newest key that is not the staged one, as Keystone does.
        made = fernet.Fernet(keys[0].read_bytes()).encrypt_at_time(msgpack.packb(parts), issued)
        return self.keep(made.decode().rstrip("="))

    def secret(self) -> str:
        """A new password."""
        return self.keep(new_secret())

    def keep(self, secret: str) -> str:
        """Remember something that nobody may read in a log."""
        self.secrets.add(secret)
        return secret


def new_secret() -> str:
    """A password that begins with a dash, as one in 64 does: programs may take it for an option."""
    return "-" + secrets.token_urlsafe(18)


def password(user: str, secret: str) -> dict:
    """Credentials of a user of the default domain, by name."""
    user = {"name": user, "domain": {"id": "default"}, "password": secret}
    return {"methods": ["password"], "password": {"user": user}}


def application_credential(id: str, secret: str) -> dict:
    """Credentials that a user has made for a program."""
    it = {"id": id, "secret": secret}
    return {"methods": ["application_credential"], "application_credential": it}


def project(name: str) -> dict:
    """The scope of a project of the default domain."""
    return {"project": {"name": name, "domain": {"id": "default"}}}


@contextlib.contextmanager
def keystone(folder: pathlib.Path):
    """A new Keystone with nobody in it but its administrator; stopped at the end."""
    folder.mkdir()
    settings = {"folder": folder, "lives": TOKEN_LIVES_SECONDS, "window": EXPIRED_WINDOW_SECONDS}
    (folder / "keystone.conf").write_text(CONFIGURATION.format(**settings))
    admin_password = new_secret()
    prepare = [sys.executable, HERE / "keystone_setup.py", folder]
    done = subprocess.run(prepare, input=admin_password, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"Keystone could not be set up:\n{done.stdout}{done.stderr}")
    environment = {"OS_KEYSTONE_CONFIG_DIR": folder}
    # One thread each: with several, what one request is about gets into another.
    command = uwsgi("keystone.wsgi.api:application", environment, processes=4, threads=1)
    with servers.running("keystone", command, http_socket, ready="/v3") as server:
        yield Keystone(server.url, folder, admin_password)


def _accepted(answer: Answer) -> Answer:
    if answer.status >= 400:
        raise RuntimeError(f"Keystone answered {answer.status}: {answer.body.decode()}")
    return answer
