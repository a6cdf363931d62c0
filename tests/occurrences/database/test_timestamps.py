from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import DataError, connection

from punctual.jobs.models import Job
from tests.occurrences.factories import a_job, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.req("TSK-8")
@pytest.mark.parametrize("micros", [0, 1, 500_000, 123_456])
def test_an_instant_is_read_as_it_was_written_aware_and_in_utc(micros: int) -> None:
    instant = NOW + timedelta(microseconds=micros)
    saved(a_job("job", instant.astimezone(timezone(timedelta(hours=5, minutes=30)))))
    found = Job.objects.get().created_at
    assert (found, found.tzinfo) == (instant, UTC)


@pytest.mark.postgres
def test_another_zone_of_the_session_changes_nothing() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL TIME ZONE 'Asia/Kolkata'")
        cursor.execute("SELECT %s::timestamptz", [NOW])
        (found,) = cursor.fetchone()
    assert (found, found.utcoffset()) == (NOW, timedelta())


@pytest.mark.postgres
def test_an_instant_python_cannot_hold_is_an_error_and_not_another_instant() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'infinity'::timestamptz")
        with pytest.raises(DataError):
            cursor.fetchone()
