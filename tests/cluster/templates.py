"""Migrate a database once per test run; every cluster gets a copy of it, which is much faster."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.cluster.processes import APP, manage
from tests.services import database_url, run_folder, template_name


def postgres_template(server: str) -> str:
    """Return the name of the template; the first worker of pytest-xdist that asks creates it."""
    name = template_name()
    url = database_url(server, "postgres")
    with shared_lock("postgres"), psycopg.connect(url, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            connection.execute(f"CREATE DATABASE {name}_unfinished")
            migrate(database_url(server, f"{name}_unfinished"))
            connection.execute(f"ALTER DATABASE {name}_unfinished RENAME TO {name}")
    return name


def sqlite_template() -> Path:
    path = run_folder() / "template.sqlite3"
    with shared_lock("sqlite"):
        if not path.exists():
            unfinished = path.with_name("unfinished.sqlite3")
            migrate(f"sqlite:///{unfinished}")
            shutil.move(unfinished, path)
    return path


@contextmanager
def shared_lock(name: str) -> Iterator[None]:
    """A lock that the workers of one test run share; it ends with its process."""
    with (run_folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def migrate(url: str) -> None:
    manage(os.environ | {"DATABASE_URL": url, "PUNCTUAL_APPS": APP}, "migrate", "--verbosity", "0")
