"""Start the servers of a benchmark, set up Django on them and migrate; stop them after the block."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.guardian import Guardian
from tests.servers import install_postgres, make_folder, run_postgres, start_valkey


class Stack(NamedTuple):
    folder: Path
    guardian: Guardian
    postgres: int  # process ids
    valkey: int


@contextmanager
def stack(*, postgres: Mapping[str, str] | None = None, **environment: str) -> Iterator[Stack]:
    """`postgres` are additional server settings, `environment` additional variables of the project."""
    guardian, folder = Guardian(), make_folder("punctual-bench-")
    guardian.remove(folder)
    try:
        database = run_postgres(install_postgres(folder), guardian, **(postgres or {}))
        valkey = start_valkey(folder, guardian)
        with psycopg.connect(database.url.replace("/punctual", "/postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE punctual")
        os.environ |= {
            "DATABASE_URL": database.url,
            "BROKER_URL": valkey.url,
            "SECRET_KEY": secrets.token_urlsafe(64),
            "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
            "PUNCTUAL_VAR": str(folder),
            "LOG_LEVEL": "WARNING",
            **environment,
        }
        _migrate()
        yield Stack(folder, guardian, database.process.pid, valkey.process.pid)
    finally:
        guardian.close()


def _migrate() -> None:
    import django  # noqa: PLC0415 - its settings are complete only now
    from django.core.management import call_command  # noqa: PLC0415

    django.setup()
    call_command("migrate", verbosity=0)
