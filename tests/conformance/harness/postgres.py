"""A throwaway PostgreSQL cluster: one temporary folder, one Unix socket.

Nothing listens on the network: it lives for one run of a suite. PostgreSQL
refuses to run as root, so as root its programs are run as the user postgres or
nobody.
"""

import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile

SUPERUSER = "berth"

# Nothing that a test writes is worth waiting for a disk.
IN_A_HURRY = {
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
    "max_connections": "200", "shared_buffers": "64MB",
}  # fmt: skip


class Cluster:
    """A running cluster, usable as a context manager."""

    def __init__(self, settings: dict[str, str] = IN_A_HURRY, under: str | None = None) -> None:
        """A cluster with these settings, in a new folder `under` another."""
        self._settings = settings
        self._programs = find_programs()
        self._as_user = _unprivileged()
        # Short on purpose: the path of a Unix socket holds at most 107 bytes.
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-pg-", dir=under))
        if self._as_user:
            shutil.chown(self._folder, self._as_user)

    def __enter__(self) -> "Cluster":
        try:
            self._start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_exception) -> None:
        self._run("pg_ctl", "stop", "-D", self._data, "-m", "immediate", "-s", check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def stop(self) -> None:
        """Stop PostgreSQL, and keep its data."""
        self._run("pg_ctl", "stop", "-D", self._data, "-m", "fast", "-w", "-s")

    def url(self, database: str) -> str:
        """The URL under which the server under test reaches `database`."""
        return f"postgres:///{database}?host={self._folder}&user={SUPERUSER}"

    def create(self, database: str, template: str = "template1") -> None:
        """Create `database` as a copy of `template`."""
        self.execute(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')

    def drop(self, database: str) -> None:
        """Remove `database`, whoever is still connected to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    def execute(self, sql: str, database: str = "postgres") -> str:
        """Run statements as the superuser; return what they answer, a line a row."""
        return self._run(
            "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
            "-h", self._folder, "-U", SUPERUSER, database, stdin=sql,
        )  # fmt: skip

    def tool(self, program: str, *arguments) -> str:
        """Run another of PostgreSQL's programs against the cluster; return what it prints."""
        return self._run(program, *arguments)

    @property
    def folder(self) -> pathlib.Path:
        """Where its socket and its data are."""
        return self._folder

    @property
    def pid(self) -> int:
        """The process all its others descend from."""
        return int((self._data / "postmaster.pid").read_text().splitlines()[0])

    @property
    def _data(self) -> pathlib.Path:
        return self._folder / "data"

    def _start(self) -> None:
        self._run(
            "initdb", "-D", self._data, "-U", SUPERUSER, "-A", "trust",
            "-E", "UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start PostgreSQL again after `stop`."""
        settings = f"-c listen_addresses= -c unix_socket_directories={self._folder}"
        settings += "".join(f" -c {name}={value}" for name, value in self._settings.items())
        log = self._folder / "log"
        self._run("pg_ctl", "start", "-D", self._data, "-w", "-s", "-l", log, "-o", settings)

    def _run(self, program: str, *arguments, check: bool = True, stdin: str = "") -> str:
        beside = pathlib.Path(self._programs["initdb"]).with_name(program)
        command = [self._programs.get(program, beside), *arguments]
        if self._as_user:
            command = [*_become(self._as_user), *command]
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self._folder, input=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "LC_ALL": "C", "PGCONNECT_TIMEOUT": "10"},
        )  # fmt: skip
        if check and done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stdout}")
        return done.stdout


def find_programs() -> dict[str, str]:
    """Where initdb, pg_ctl and psql are, from PATH or the usual places."""
    folders = _candidate_folders()
    for folder in folders:
        programs = {name: folder / name for name in ("initdb", "pg_ctl", "postgres")}
        if all(program.is_file() for program in programs.values()):
            psql = folder / "psql"
            found = str(psql) if psql.is_file() else shutil.which("psql")
            if found:
                return {**{k: str(v) for k, v in programs.items()}, "psql": found}
    sys.exit(
        "PostgreSQL's server programs (initdb, pg_ctl, postgres) and psql were not "
        "found on PATH, by pg_config or in /usr/lib/postgresql: on Debian and "
        "Ubuntu, `apt-get install postgresql` brings them."
    )


def _candidate_folders() -> list[pathlib.Path]:
    folders = []
    on_path = shutil.which("initdb")
    if on_path:
        # Resolved, because initdb looks for its siblings beside itself.
        folders.append(pathlib.Path(on_path).resolve().parent)
    if shutil.which("pg_config"):
        located = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True)
        if located.returncode == 0:
            folders.append(pathlib.Path(located.stdout.strip()))
    versions = pathlib.Path("/usr/lib/postgresql").glob("*/bin")
    return folders + sorted(versions, key=_version, reverse=True)


def _version(folder: pathlib.Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


def _unprivileged() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    sys.exit("PostgreSQL does not run as root, and there is no user postgres or nobody.")


def _become(user: str) -> list[str]:
    group = str(pwd.getpwnam(user).pw_gid)
    if shutil.which("setpriv"):
        return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--"]
    return ["runuser", "-u", user, "--"]
