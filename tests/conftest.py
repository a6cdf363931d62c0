"""Fixtures that several packages need."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import hypothesis
import pytest
from django.conf import settings
from django.test import TransactionTestCase
from pytest_django.plugin import DjangoDbBlocker

from tests.emptying import emptier

# A busy machine is not a failure: time decides no test.
hypothesis.settings.register_profile("punctual", deadline=None)
hypothesis.settings.load_profile("punctual")


# Forms, buttons, commands and pages of documentation call the rooms, whose own tests run on both databases.
# The queries of pages (console/ledger, console/status) and one visit to every page are repeated.
SAME_ON_EVERY_DATABASE = (
    "benchmarks",
    "commands",
    "console/acting",
    "console/definitions",
    "console/kit",
    "console/test_groups.py",
    "console/test_secrets.py",
    "docs",
    "examples",
    "flow/test_long_outages.py",  # memory and time of a pure calculation
)
NOT_REPEATED = ("postgres", "cluster", "browser")  # markers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is repeated on SQLite: tests that use the database, unless its kind cannot matter to them."""
    for item in items:
        path = item.path.relative_to(Path(__file__).parent)
        independent = any(path.is_relative_to(part) for part in SAME_ON_EVERY_DATABASE)
        excluded = any(item.get_closest_marker(name) for name in NOT_REPEATED)
        if uses_database(item) and not independent and not excluded:
            item.add_marker(pytest.mark.sqlite)


def uses_database(item: pytest.Item) -> bool:
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return item.get_closest_marker("django_db") is not None or "django_db_setup" in fixtures


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


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Replace Django's flush after each test that commits by one that takes milliseconds."""
    with django_db_blocker.unblock():
        database = emptier()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _case: database.empty())
        yield
