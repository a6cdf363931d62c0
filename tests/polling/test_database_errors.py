"""`initialize` without a database, or without its tables, raises a PollingError in a user's own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.req("POL-6")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import asyncio, sys
import django
django.setup()
from datetime import timedelta
from punctual.polling import Scheduler
from punctual.polling.errors import PollingError

async def nothing(): ...

async def main():
    scheduler = Scheduler()
    try:
        await scheduler.initialize([("a", "* * * * *", nothing, timedelta(0))])
    except PollingError as error:
        print(type(error).__name__, scheduler.phase, type(error.details["cause"]).__name__, error)
    await scheduler.stop()

asyncio.run(main())
"""


def output(var: Path, **variables: str) -> str:
    given = {"DJANGO_SETTINGS_MODULE": "scheduler_project.settings", "PUNCTUAL_VAR": str(var)}
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BROKER_URL")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=kept | given | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_database_without_tables_asks_for_a_migration(tmp_path: Path) -> None:
    text = output(tmp_path / "var")
    assert text.startswith(
        "SchedulerDatabaseError uninitialized OperationalError The database refused: no such"
    )
    assert "run `manage.py migrate` first" in text


def test_an_unreachable_database_is_named_as_the_cause(tmp_path: Path) -> None:
    url = "postgres://ada@127.0.0.1:1/none"
    text = output(tmp_path / "var", DATABASE_URL=url, SECRET_KEY="x" * 50, ALLOWED_HOSTS="localhost")
    assert text.startswith("SchedulerDatabaseError uninitialized OperationalError The database refused:")
    assert "nothing was changed, call initialize again" in text
