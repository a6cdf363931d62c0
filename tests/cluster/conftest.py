"""Fixtures: clusters of real processes.

`@pytest.mark.parametrize("cluster", ["sqlite"], indirect=True)` selects the database; the default is
PostgreSQL. "own_postgres" is a server that the test may crash.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from pytest_django.plugin import DjangoDbBlocker

from tests.cluster.processes import Cluster, OwnPostgres
from tests.cluster.templates import migrate, postgres_template, sqlite_template
from tests.guardian import Guardian
from tests.servers import install_postgres, make_folder
from tests.services import database_url

CloneDatabase = Callable[[Path], str]
numbers = count(1)


@pytest.hookimpl(trylast=True)  # after the tests are shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first: started last, one of them would run alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


@pytest.fixture(scope="session")
def guardian() -> Iterator[Guardian]:
    """One guardian per test process: each worker of pytest-xdist may have a cluster."""
    guardian = Guardian()
    yield guardian
    guardian.close()


@pytest.fixture(scope="session")
def cluster_folder(guardian: Guardian) -> Path:
    folder = make_folder("punctual-cluster-")
    guardian.remove(folder)
    return folder


@pytest.fixture(scope="session")
def clone_postgres() -> Iterator[CloneDatabase]:
    server = os.environ["DATABASE_URL"]
    if not server.startswith("postgres"):
        pytest.skip("DATABASE_URL is not a PostgreSQL server")
    with cloning(server) as clone:
        yield clone


@pytest.fixture(scope="session")
def own_postgres(guardian: Guardian) -> Iterator[OwnPostgres]:
    folder = make_folder("punctual-postgres-")
    guardian.remove(folder)
    postgres = OwnPostgres(install_postgres(folder), guardian)
    yield postgres
    postgres.server.stop(guardian)


@pytest.fixture(scope="session")
def clone_own_postgres(own_postgres: OwnPostgres) -> CloneDatabase:
    """Create and migrate a database per test: the connection to a template would not survive a crash."""

    def clone(_folder: Path) -> str:
        url = own_postgres.server.url
        name = f"punctual_cluster_{next(numbers)}"
        with psycopg.connect(database_url(url, "postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        migrate(database_url(url, name))
        return database_url(url, name)

    return clone


@contextmanager
def cloning(server: str) -> Iterator[CloneDatabase]:
    names: list[str] = []
    template = postgres_template(server)
    with psycopg.connect(database_url(server, "postgres"), autocommit=True) as connection:

        def clone(_folder: Path) -> str:
            names.append(f"punctual_cluster_{os.getpid()}_{next(numbers)}")
            connection.execute(f"CREATE DATABASE {names[-1]} TEMPLATE {template}")
            return database_url(server, names[-1])

        yield clone
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def clone_sqlite() -> CloneDatabase:
    template = sqlite_template()

    def clone(folder: Path) -> str:
        shutil.copy(template, folder / "punctual.sqlite3")
        return f"sqlite:///{folder / 'punctual.sqlite3'}"

    return clone


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest,
    guardian: Guardian,
    cluster_folder: Path,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Cluster]:
    database = getattr(request, "param", "postgres")
    clone: CloneDatabase = request.getfixturevalue(f"clone_{database}")
    folder = cluster_folder / str(next(numbers))
    folder.mkdir()
    with django_db_blocker.unblock():
        cluster = Cluster(folder, guardian, clone(folder))
        if database == "own_postgres":
            cluster.postgres = request.getfixturevalue(database)
        try:
            yield cluster
        finally:
            cluster.stop_all()
