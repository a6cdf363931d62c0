"""Check everything that `up` needs before it starts; write nothing."""

import os
from pathlib import Path

from celery import Celery
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error as DatabaseError
from kombu import Connection
from kombu.exceptions import KombuError

from punctual.jobs.redaction import redact_addresses
from scheduler_project.celery import app
from scheduler_project.up import bundled_broker, ports
from scheduler_project.up.errors import RefusedError
from scheduler_project.up.programs import FLOWER_HOST, Options


def check(options: Options, *, own_broker: bool) -> None:
    """Raise RefusedError with one line if anything is missing."""
    if options.demo and not ports.is_loopback(options.host):
        raise RefusedError(
            f"--demo creates a login that is reachable on {options.host}; use a loopback --host"
        )
    if options.flower_port == options.port:
        raise RefusedError(f"--port and --flower-port are both {options.port}")
    if own_broker:
        bundled_broker.check(settings.VAR_DIR)
    ports.check(options.host, options.port, option="--port")
    if options.flower_port:
        ports.check(FLOWER_HOST, options.flower_port, option="--flower-port")
    check_database(connections["default"])
    if not own_broker:
        check_broker(app)


def check_database(configured: BaseDatabaseWrapper) -> None:
    connection = _unpooled(configured)
    if connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists():
        # Opening the file would create it.
        return _check_folder(Path(connection.settings_dict["NAME"]).absolute().parent)
    try:
        connection.ensure_connection()
    except (DatabaseError, OSError) as error:
        raise RefusedError(f"cannot reach the database {_shown(connection)}: {_line(error)}") from None
    finally:
        connection.close()
    return None


def check_broker(app: Celery) -> None:
    with app.connection() as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0)
        except (KombuError, OSError, ValueError) as error:
            raise RefusedError(f"cannot reach the broker {_place(connection)}: {_line(error)}") from None


def _place(broker: Connection) -> str:
    """Return the broker's address; kombu hides the password, except in the URL of a socket."""
    address = broker.as_uri()
    return address if ":**@" in address else redact_addresses(address)


def _check_folder(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RefusedError(f"cannot create the database: no writable folder {folder}")


def _unpooled(configured: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Return a connection without the pool, which would hide the server's error behind a time-out."""
    connection = configured.copy()
    connection.settings_dict["OPTIONS"].pop("pool", None)
    return connection


def _shown(connection: BaseDatabaseWrapper) -> str:
    """Return the database's address without the password."""
    facts = connection.settings_dict
    if connection.vendor == "sqlite":
        return str(facts["NAME"])
    port = f":{facts['PORT']}" if facts["PORT"] else ""
    user = f"{facts['USER']}@" if facts["USER"] else ""
    return f"{connection.vendor}://{user}{facts['HOST']}{port}/{facts['NAME']}"


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return redact_addresses(lines[0].strip()) if lines else type(error).__name__
