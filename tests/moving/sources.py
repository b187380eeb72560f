"""Databases for the reference: SQLite, PostgreSQL and MariaDB, each thrown away at the end."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from harness.postgres import Cluster

READY_WITHIN_SECONDS = 60


@contextlib.contextmanager
def sqlite():
    """The URL of an SQLite database that does not exist yet."""
    with tempfile.TemporaryDirectory(prefix="moving-") as folder:
        yield f"sqlite:///{folder}/placement.sqlite"


@contextlib.contextmanager
def postgres():
    """The URL of an empty PostgreSQL database."""
    with Cluster() as cluster:
        cluster.create("placement")
        yield f"postgresql+psycopg2://berth@/placement?host={cluster.folder}"


@contextlib.contextmanager
def mariadb():
    """The URL of an empty MariaDB database. Nothing listens on the network."""
    server, install = _program("mariadbd"), _program("mariadb-install-db")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="moving-"))
    data, socket = folder / "data", folder / "socket"
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    try:
        command = [install, "--no-defaults", f"--datadir={data}", "--skip-test-db"]
        command += ["--auth-root-authentication-method=normal", *as_root]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        command = [server, "--no-defaults", f"--datadir={data}", f"--socket={socket}"]
        command += ["--skip-networking", "--character-set-server=utf8mb3", "--innodb-flush-log-at-trx-commit=0"]
        with open(folder / "log", "w") as log:
            process = subprocess.Popen([*command, *as_root], stdout=log, stderr=log)
        try:
            _create(socket, process, folder / "log")
            yield f"mysql+pymysql://root@localhost/placement?unix_socket={socket}"
        finally:
            process.terminate()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _create(socket: pathlib.Path, process: subprocess.Popen, log: pathlib.Path) -> None:
    """Create the database, as soon as the server answers."""
    import pymysql

    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while True:
        try:
            with pymysql.connect(unix_socket=str(socket), user="root") as connection:
                connection.cursor().execute("create database placement")
                return
        except pymysql.err.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"MariaDB does not start:\n{log.read_text()}")
            time.sleep(0.1)


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    return found or sys.exit(f"{name} is missing: run `tools/install mariadb`")
