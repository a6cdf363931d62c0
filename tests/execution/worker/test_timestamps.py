from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import DataError, connection

from punctual.execution.worker.database_session import use_fast_loader

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def fast() -> Iterator[Any]:
    """A connection of our own; the tests' connection stays as Django has it."""
    own = connection.copy()
    own.ensure_connection()
    use_fast_loader(own)
    yield own
    own.close()


@pytest.mark.req("TSK-8")
@pytest.mark.parametrize("micros", [0, 1, 500_000, 123_456])
def test_an_instant_is_read_as_it_was_written_aware_and_in_utc(fast: Any, micros: int) -> None:
    instant = NOW + timedelta(microseconds=micros)
    elsewhere = instant.astimezone(timezone(timedelta(hours=5, minutes=30)))
    with fast.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [elsewhere])
        (found,) = cursor.fetchone()
    assert (found, found.tzinfo) == (instant, UTC)


def test_another_zone_of_the_session_changes_nothing(fast: Any) -> None:
    with fast.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'Asia/Kolkata'")
        cursor.execute("SELECT %s::timestamptz", [NOW])
        (found,) = cursor.fetchone()
    assert (found, found.utcoffset()) == (NOW, timedelta())


def test_an_instant_python_cannot_hold_is_an_error_and_not_another_instant(fast: Any) -> None:
    with fast.cursor() as cursor:
        cursor.execute("SELECT 'infinity'::timestamptz")
        with pytest.raises(DataError):
            cursor.fetchone()
