from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Job
from occurrences import cursors
from occurrences.models import Cursor
from tests.occurrences.ledger import a_job, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_cursors_come_with_their_jobs_in_one_read_and_say_what_the_rows_say() -> None:
    for number in range(3):
        saved(a_job(f"job {number}", NOW, config={"queue": f"q{number}"}, paused_at=NOW if number else None))
        Cursor.objects.filter(job__name=f"job {number}").update(plan_at=NOW - timedelta(seconds=number))
    with CaptureQueriesContext(connection) as queries:
        found = cursors.read(list(Job.objects.values_list("id", flat=True)))
        names = [cursor.job.name for cursor in found]
    assert (names, len(queries)) == (["job 2", "job 1", "job 0"], 2)
    for cursor in found:
        same = Cursor.objects.select_related("job").get(pk=cursor.pk)
        assert {name: getattr(cursor, name) for name in cursors.CURSOR} == {
            name: getattr(same, name) for name in cursors.CURSOR
        }
        assert {name: getattr(cursor.job, name) for name in cursors.JOB} == {
            name: getattr(same.job, name) for name in cursors.JOB
        }


def test_what_was_not_read_is_fetched_when_somebody_asks() -> None:
    job = saved(a_job("job", NOW, metadata={"team": "billing"}))
    (cursor,) = cursors.read([job.id])
    assert cursor.job.metadata == {"team": "billing"}
