"""10,000 jobs and 1,000,000 occurrences in -> milliseconds of server time and queries of every page.

    python benchmarks/pages.py [JOBS [OCCURRENCES]]

Starts its own PostgreSQL and Redis-compatible server and fills it, about two minutes at the default size.
A page is asked for through Django's whole request cycle, in this process; the first view of each is not
counted, the figures are the best and the median of five: on a busy machine the best is nearer the truth.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

# Run as a script, this file's folder would come first, and hide packages of the same name.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psycopg  # noqa: E402

from tests.guardian import Guardian  # noqa: E402
from tests.servers import make_folder, start_postgres, start_valkey  # noqa: E402

JOBS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
TIMES = 5
BOUND = 300  # milliseconds


@contextmanager
def servers() -> Iterator[None]:
    guardian, folder = Guardian(), make_folder()
    guardian.remove(folder)
    postgres, valkey = start_postgres(folder, guardian), start_valkey(folder, guardian)
    with psycopg.connect(postgres.url.replace("/punctual", "/postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE punctual")
    os.environ |= {
        "DATABASE_URL": postgres.url,
        "BROKER_URL": valkey.url,
        "SECRET_KEY": secrets.token_urlsafe(64),
        "ALLOWED_HOSTS": "testserver",
        "HTTPS": "off",
        "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
        "PUNCTUAL_VAR": str(folder),
        "LOG_LEVEL": "ERROR",
    }
    try:
        yield
    finally:
        guardian.close()


def prepare() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from jobs.clock import database_now
    from tests.console.fleet import fill_big

    call_command("migrate", verbosity=0)
    fill_big(database_now(), jobs=JOBS, rows=ROWS)


def measure() -> None:
    from django.contrib.auth.models import User
    from django.test import Client, override_settings

    from tests.console.paths import big_paths

    client = Client()
    client.force_login(User.objects.create_superuser("bench"))
    plain: Any = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
    with override_settings(STORAGES=plain):
        for name, path in big_paths().items():
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.status_code)
            sent = _statements(client, path)
            taken = sorted(_timed(client, path) * 1000 for _ in range(TIMES))
            mark = "" if taken[0] < BOUND else f"  above {BOUND}"
            print(f"{name:34} {taken[0]:7.0f} {median(taken):7.0f} ms  {sent:3d} queries{mark}", flush=True)


def _statements(client: Any, path: str) -> int:
    from django.db import connection

    sent = 0

    def count(execute: Any, *args: Any) -> Any:
        nonlocal sent
        sent += 1
        return execute(*args)

    with connection.execute_wrapper(count):
        client.get(path)
    return sent


def _timed(client: Any, path: str) -> float:
    started = perf_counter()
    client.get(path)
    return perf_counter() - started


if __name__ == "__main__":
    with servers():
        prepare()
        print(f"{JOBS:,} jobs, {ROWS:,} occurrences with a run and an attempt each")
        measure()
