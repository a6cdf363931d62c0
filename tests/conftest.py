"""Fixtures that several packages need."""

import os
from datetime import UTC, datetime
from pathlib import Path

import hypothesis
import pytest
from django.conf import settings

# A busy machine is not a failure: time decides no test.
hypothesis.settings.register_profile("punctual", deadline=None)
hypothesis.settings.load_profile("punctual")


@pytest.fixture
def now() -> datetime:
    """An arbitrary Monday; nothing in the code under test reads another clock."""
    return datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(scope="session", autouse=True)
def sqlite_tests_use_a_file() -> None:
    """In memory, SQLite shares one cache between threads and has neither WAL nor a busy timeout."""
    default = settings.DATABASES["default"]
    if default["ENGINE"] == "django.db.backends.sqlite3":
        default["TEST"]["NAME"] = str(Path(os.environ["PUNCTUAL_VAR"]) / "test.sqlite3")
