from datetime import UTC, datetime, timedelta

import pytest

from jobs.errors import PunctualError
from jobs.models import Job
from occurrences.ids import occurrence_id
from occurrences.manual import MICROSECOND, MOST_TRIES, trigger
from occurrences.models import Cursor, Occurrence
from tests.occurrences.ledger import a_job, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-9")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def job() -> Job:
    return saved(a_job("job", NOW, version=3, config={"overlap": "queue"}))


def test_a_manual_occurrence_is_due_now_and_runs_with_the_job_as_it_is(job: Job) -> None:
    id_ = trigger(job, args={"day": "monday"}, now=NOW)
    row = Occurrence.objects.get()
    assert (row.id, row.cause, row.args) == (id_, "manual", {"day": "monday"})
    assert row.scheduled_for == row.run_at == row.created_at == NOW
    assert (row.job_version, row.config["overlap"], row.exclusive) == (3, "queue", True)
    assert row.late_at is None, "it waits as long as it must"
    assert list(Occurrence.objects.due(NOW).timely(NOW + timedelta(days=9))) == [row]


def test_the_schedule_s_own_instant_is_not_taken_away(job: Job) -> None:
    planned = saved(an_occurrence(job, NOW))
    id_ = trigger(job, args={}, now=NOW)
    assert id_ == occurrence_id(job.id, NOW + MICROSECOND)
    planned.refresh_from_db()
    assert (planned.cause, planned.state) == ("schedule", "pending")


def test_the_plan_of_the_schedule_stays_as_it_is(job: Job) -> None:
    before = dict(Cursor.objects.values().get())
    trigger(job, args={}, now=NOW)
    assert dict(Cursor.objects.values().get()) == before


def test_a_crowded_moment_is_refused_with_a_number(job: Job) -> None:
    Occurrence.objects.bulk_create(an_occurrence(job, NOW + n * MICROSECOND) for n in range(MOST_TRIES))
    with pytest.raises(PunctualError, match="job: 100 triggers in one moment; try again"):
        trigger(job, args={}, now=NOW)
    assert Occurrence.objects.count() == MOST_TRIES


def test_arguments_that_are_no_json_create_nothing(job: Job) -> None:
    with pytest.raises((TypeError, PunctualError), match="JSON"):
        trigger(job, args={"when": object()}, now=NOW)
    assert not Occurrence.objects.exists()
