from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor
from punctual.occurrences.planning import cursors
from tests.occurrences.factories import a_job, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_cursors_and_their_jobs_are_read_in_one_statement_and_equal_the_rows() -> None:
    for number in range(3):
        saved(a_job(f"job {number}", NOW, config={"queue": f"q{number}"}, paused_at=NOW if number else None))
        Cursor.objects.filter(job__name=f"job {number}").update(plan_at=NOW - timedelta(seconds=number))
    with CaptureQueriesContext(connection) as queries:
        found = cursors.read_cursors(list(Job.objects.values_list("id", flat=True)))
        names = [cursor.job.name for cursor in found]
    assert (names, len(queries)) == (["job 2", "job 1", "job 0"], 2)
    for cursor in found:
        same = Cursor.objects.select_related("job").get(pk=cursor.pk)
        assert {name: getattr(cursor, name) for name in cursors.CURSOR_COLUMNS} == {
            name: getattr(same, name) for name in cursors.CURSOR_COLUMNS
        }
        assert {name: getattr(cursor.job, name) for name in cursors.JOB_COLUMNS} == {
            name: getattr(same.job, name) for name in cursors.JOB_COLUMNS
        }


def test_a_column_that_was_not_read_is_fetched_on_access() -> None:
    job = saved(a_job("job", NOW, metadata={"team": "billing"}))
    (cursor,) = cursors.read_cursors([job.id])
    assert cursor.job.metadata == {"team": "billing"}
