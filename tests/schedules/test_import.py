"""`punctual.schedules` is usable without Django and Celery."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from punctual import schedules
from datetime import UTC, datetime

assert schedules.parse("@daily").next_after(datetime(2026, 1, 1, tzinfo=UTC)).day == 2
loaded = {name.partition(".")[0] for name in sys.modules} & {"django", "celery", "kombu", "redis", "psycopg"}
sys.exit(f"loaded: {sorted(loaded)}" if loaded else 0)
"""


@pytest.mark.req("CHX-1")
def test_a_process_without_settings_imports_neither_django_nor_celery() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
