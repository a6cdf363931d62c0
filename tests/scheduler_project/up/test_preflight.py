import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from celery import Celery
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from pytest_django.plugin import DjangoDbBlocker

from scheduler_project import environment
from scheduler_project.up import preflight
from scheduler_project.up.errors import RefusedError
from scheduler_project.up.programs import Options

pytestmark = pytest.mark.req("OPS-1")


@pytest.fixture(autouse=True)
def connections_are_allowed(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def options() -> Options:
    return Options("127.0.0.1", free_port(), 2, 1, 4, free_port(), demo=False)


def database(url: str) -> BaseDatabaseWrapper:
    entry = environment.database({"DATABASE_URL": url}, Path())
    return ConnectionHandler({"default": entry})["default"]


def refusal(url: str) -> str:
    with pytest.raises(RefusedError) as refused:
        preflight.check_database(database(url))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_an_unreachable_database_is_one_line_without_the_password() -> None:
    line = refusal(f"postgres://me:geheim@127.0.0.1:{free_port()}/ledger")
    assert line.startswith("cannot reach the database postgresql://me@127.0.0.1:")
    assert "refused" in line
    assert "geheim" not in line


@pytest.mark.postgres
def test_a_database_that_does_not_exist_is_named_as_the_reason() -> None:
    server = os.environ["DATABASE_URL"].rpartition("/")[0]
    assert "does not exist" in refusal(f"{server}/no_such_ledger")


@pytest.mark.postgres
def test_a_database_that_answers_passes() -> None:
    server = os.environ["DATABASE_URL"].rpartition("/")[0]
    preflight.check_database(database(f"{server}/postgres"))


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("this is not a database, it is a longer text about one\n" * 9)
    assert refusal(f"sqlite:///{tmp_path}/notes.txt").endswith("file is not a database")


def test_looking_at_a_new_sqlite_file_does_not_create_it(tmp_path: Path) -> None:
    preflight.check_database(database(f"sqlite:///{tmp_path}/new.sqlite3"))
    assert not list(tmp_path.iterdir())


def test_a_sqlite_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    line = refusal(f"sqlite:///{tmp_path}/missing/new.sqlite3")
    assert line == f"cannot create the database: no writable folder {tmp_path}/missing"


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_an_unreachable_broker_is_one_line_without_the_password(scheme: str) -> None:
    port = free_port()
    with pytest.raises(RefusedError) as refused:
        preflight.check_broker(
            Celery(broker=f"{scheme}://me:geheim@127.0.0.1:{port}/1", set_as_current=False)
        )
    line = str(refused.value)
    assert line.startswith(f"cannot reach the broker {scheme}://me:**@127.0.0.1:{port}/1: ")
    assert "geheim" not in line
    assert "\n" not in line


@pytest.mark.req("OPS-7")
def test_the_password_of_a_broker_on_a_socket_is_hidden_too() -> None:
    with pytest.raises(RefusedError) as refused:
        preflight.check_broker(Celery(broker="redis+socket://:geheim@/nowhere.sock", set_as_current=False))
    assert "/nowhere.sock" in str(refused.value)
    assert "geheim" not in str(refused.value)


def test_the_configured_broker_passes() -> None:
    preflight.check_broker(Celery(broker=os.environ["BROKER_URL"], set_as_current=False))


def test_the_demo_login_stays_on_the_loopback_interface() -> None:
    with pytest.raises(RefusedError, match=r"--demo .* 0\.0\.0\.0; use a loopback --host"):
        preflight.check(replace(options(), host="0.0.0.0", demo=True), own_broker=False)  # noqa: S104


def test_one_port_for_two_servers_is_refused() -> None:
    given = options()
    with pytest.raises(RefusedError, match="--port and --flower-port are both"):
        preflight.check(replace(given, flower_port=given.port), own_broker=False)


def test_flowers_port_is_checked_under_its_own_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = replace(options(), flower_port=server.getsockname()[1])
        with pytest.raises(RefusedError, match="choose another with --flower-port"):
            preflight.check(taken, own_broker=False)
