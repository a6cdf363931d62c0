"""A pytest plugin that starts PostgreSQL and valkey unless DATABASE_URL and BROKER_URL are set.

Loaded with `-p tests.services`, so that the environment is complete before pytest-django reads the
settings. The servers come as wheels; `tests.guardian` ends them however the run ends. Workers of
pytest-xdist inherit the controller's environment and start nothing. Each uses its own database of the
broker, as pytest-django gives it its own database in PostgreSQL.
"""

import os
import secrets
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.guardian import Guardian
from tests.servers import Server, make_folder, start_postgres, start_valkey

CHOICE = "PUNCTUAL_TEST_DATABASE"  # "sqlite": the portable run, no server


class Services:
    """The servers that this run started."""

    def __init__(self) -> None:
        self.guardian = Guardian()
        self.folder = make_folder()
        self.guardian.remove(self.folder)
        self.servers: list[Server] = []
        self.given_database = os.environ.get("DATABASE_URL", "")

    def provide_database(self) -> str:
        if os.environ.get(CHOICE) == "sqlite":
            return f"sqlite:///{self.folder / 'punctual.sqlite3'}"
        self.servers.append(start_postgres(self.folder, self.guardian))
        return self.servers[-1].url

    def provide_broker(self) -> str:
        self.servers.append(start_valkey(self.folder, self.guardian))
        return self.servers[-1].url

    def stop(self) -> None:
        if self.given_database.startswith("postgres"):
            drop_template(self.given_database)
        for server in self.servers:
            server.stop(self.guardian)
        self.guardian.close()


SERVICES = pytest.StashKey[Services]()


@pytest.hookimpl(wrapper=True)  # wrappers run before every plain implementation, pytest-django's too
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        os.environ["BROKER_URL"] = own_broker(os.environ["BROKER_URL"], worker)
    else:
        early_config.stash[SERVICES] = services = Services()
        environment = complete_environment(services)
        os.environ.update(environment)
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    if services := config.stash.get(SERVICES, None):
        services.stop()


def own_broker(url: str, worker: str) -> str:
    """Give `gw3` database 3 of the broker, so that no test takes another worker's messages."""
    on_socket = url.partition(":")[0] == "redis+socket"
    return f"{url}?virtual_host={worker.removeprefix('gw')}" if on_socket else url


def run_folder() -> Path:
    """The folder that all workers of this run share."""
    return Path(os.environ["PUNCTUAL_VAR"])


def template_name() -> str:
    """The database that clusters are copied from; the folder of a run has a random name."""
    return f"template_of_{run_folder().parent.name}".replace("-", "_")


def drop_template(server: str) -> None:
    with psycopg.connect(database_url(server, "postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {template_name()} WITH (FORCE)")


def database_url(server: str, name: str) -> str:
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def complete_environment(services: Services) -> dict[str, str]:
    """Return the variables that the settings need, from the caller's environment where it has them."""
    var: Path = services.folder / "var"
    var.mkdir()
    given = os.environ.get
    return {
        "DATABASE_URL": services.given_database or services.provide_database(),
        "BROKER_URL": given("BROKER_URL") or services.provide_broker(),
        "SECRET_KEY": given("SECRET_KEY") or secrets.token_urlsafe(64),
        "ALLOWED_HOSTS": given("ALLOWED_HOSTS") or "testserver,localhost,127.0.0.1",
        "HTTPS": "off",
        "PUNCTUAL_VAR": str(var),
    }
