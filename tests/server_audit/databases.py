"""Two empty databases for nova, of one cell and of its API: SQLite, PostgreSQL or MariaDB."""

import contextlib
import tempfile

import pymysql
import sources
import sqlalchemy
from harness.postgres import Cluster

NAMES = ("nova", "nova_api")


@contextlib.contextmanager
def sqlite():
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        yield [f"sqlite:///{folder}/{name}.sqlite" for name in NAMES]


@contextlib.contextmanager
def postgres():
    with Cluster() as cluster:
        for name in NAMES:
            cluster.create(name)
        yield [f"postgresql+psycopg2://berth@/{name}?host={cluster.folder}" for name in NAMES]


@contextlib.contextmanager
def mariadb():
    with sources.mariadb() as url:
        made = sqlalchemy.engine.make_url(url)
        with pymysql.connect(unix_socket=made.query["unix_socket"], user="root") as connection:
            for name in NAMES:
                connection.cursor().execute(f"create database {name}")
        yield [made.set(database=name).render_as_string(hide_password=False) for name in NAMES]
