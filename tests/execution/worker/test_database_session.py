"""A worker's session has the project's options, and its own where the project has none."""

import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from punctual.execution.worker.database_session import (
    NETWORK,
    PREPARE_THRESHOLD,
    create_session,
    postgres_options,
    sqlite_options,
)


def options(given: dict[str, Any], *, prepared: bool = True, host_options: str = "") -> dict[str, Any]:
    wrapper = SimpleNamespace(timezone_name="UTC", settings_dict={"HOST_OPTIONS": host_options})
    return postgres_options(given, wrapper, prepared=prepared)


# -- PostgreSQL -------------------------------------------------------------------------------------------


def test_statements_are_prepared_and_connections_are_watched() -> None:
    assert options({}) == {
        **NETWORK,
        "prepare_threshold": PREPARE_THRESHOLD,
        "options": "-c TimeZone=UTC -c plan_cache_mode=force_generic_plan "
        "-c idle_in_transaction_session_timeout=60000",
    }


def test_the_project_s_options_take_precedence() -> None:
    given = {"connect_timeout": 1, "keepalives_idle": 7, "prepare_threshold": 9, "sslmode": "require"}
    assert given.items() <= options(given).items()


def test_the_project_s_start_options_stand_in_front_of_ours() -> None:
    text = options({}, host_options="-c search_path=shop")["options"]
    assert text.startswith("-c search_path=shop -c TimeZone=UTC ")


def test_the_project_s_own_idle_limit_is_kept() -> None:
    given = "-c idle_in_transaction_session_timeout=5"
    assert options({}, host_options=given)["options"].count("idle_in_transaction_session_timeout") == 1


def test_a_service_file_keeps_its_options() -> None:
    assert "options" not in options({"service": "shop"})


def test_behind_a_pooler_nothing_is_prepared_and_no_session_has_settings_of_ours() -> None:
    assert options({"prepare_threshold": 3}, prepared=False) == {**NETWORK, "prepare_threshold": None}


def test_a_pool_of_the_project_is_not_used() -> None:
    assert "pool" not in options({"pool": {"max_size": 4}})


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_session_starts_with_these_options() -> None:
    session = create_session(connections.settings["default"], "default", prepared=True)
    with session.cursor() as cursor:
        cursor.execute("SELECT current_setting('plan_cache_mode'), current_setting('TimeZone')")
        assert cursor.fetchone() == ("force_generic_plan", "UTC")
    assert session.connection.prepare_threshold == PREPARE_THRESHOLD
    session.close()


class Pooler(threading.Thread):
    """Refuses start options, as PgBouncer does, and passes other connections on."""

    def __init__(self, folder: Path, server: Any) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self.refused = 0

    def run(self) -> None:
        while True:
            client, _ = self._listener.accept()
            start = self._read_start(client)
            if b"\0options\0" in start:
                self.refused += 1
                text = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                client.sendall(b"E" + struct.pack("!i", len(text) + 4) + text)
                client.close()
                continue
            server = socket.socket(self._server[0])
            server.connect(self._server[1])
            server.sendall(start)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    def _read_start(self, client: socket.socket) -> bytes:
        while True:
            size = client.recv(4, socket.MSG_WAITALL)
            body = client.recv(struct.unpack("!i", size)[0] - 4, socket.MSG_WAITALL)
            if len(body) > 4:
                return size + body
            client.sendall(b"N")  # no encryption


def copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # the other direction has closed it
        while data := source.recv(65536):
            target.sendall(data)
    target.close()


@pytest.fixture
def pooler(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pooler, dict[str, Any]]:
    settings = connections.settings["default"]
    host, port = settings["HOST"], settings["PORT"] or 5432
    unix = host.startswith("/")
    address = f"{host}/.s.PGSQL.{port}" if unix else (host, int(port))
    folder = tmp_path_factory.mktemp("p")
    thread = Pooler(folder, (socket.AF_UNIX if unix else socket.AF_INET, address))
    thread.start()
    return thread, {**settings, "HOST": str(folder), "PORT": "5432"}


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_pooler_that_refuses_start_options_gets_a_plain_connection(
    pooler: tuple[Pooler, dict[str, Any]],
) -> None:
    thread, settings = pooler
    session = create_session(settings, "default", prepared=True)
    with session.cursor() as cursor:
        cursor.execute("SELECT current_setting('plan_cache_mode')")
        assert cursor.fetchone() == ("auto",)
    assert thread.refused == 1
    assert session.connection.prepare_threshold is None
    session.close()


# -- SQLite -----------------------------------------------------------------------------------------------


def test_sqlite_gets_what_the_ledger_needs_after_what_the_project_has() -> None:
    chosen = sqlite_options({"init_command": "PRAGMA cache_size=1;", "timeout": 5, "isolation_level": None})
    assert chosen["init_command"].startswith("PRAGMA cache_size=1; PRAGMA journal_mode=WAL;")
    assert (chosen["transaction_mode"], chosen["timeout"]) == ("IMMEDIATE", 30)
    assert sqlite_options({"timeout": 60})["timeout"] == 60


def test_a_database_in_memory_has_no_second_connection() -> None:
    host = connections.settings["default"] | {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {},
    }
    assert not create_session(host, "default", prepared=True).is_shared_database()
