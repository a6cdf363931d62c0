from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from punctual.jobs.models import Job
from punctual.occurrences.admission.selection import select_due
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.cursors import CURSOR_COLUMNS, JOB_COLUMNS, SeenJob, lock_cursors
from punctual.occurrences.planning.materialize import Planned, plan_due
from tests.occurrences.factories import a_job, a_task, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-2", "OCC-8")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
Seen = dict[str, SeenJob]
Ledger = tuple[list[Any], list[Any]]


def make(name: str, schedule: str = "0 * * * *", **columns: Any) -> Job:
    """A job that is due now and planned no further."""
    job = saved(a_job(name, NOW - HOUR, schedule=schedule, **columns))
    saved(a_task(job))
    saved(an_occurrence(job, NOW))
    Cursor.objects.filter(job=job).update(settled_until=NOW - SECOND, planned_until=NOW, plan_at=NOW)
    return job


def seen_by_firing() -> Seen:
    with transaction.atomic():
        return select_due(NOW, 100).seen_jobs()


def ledger() -> Ledger:
    return list(Occurrence.objects.order_by("id").values()), list(Cursor.objects.order_by("job").values())


def planned_without_seen() -> Ledger:
    with transaction.atomic():
        plan_due(NOW)
        rows = ledger()
        transaction.set_rollback(True)
    return rows


def reads_of_jobs(seen: Seen) -> int:
    """Plan, and return the number of statements that read jobs."""
    with CaptureQueriesContext(connection) as queries:
        plan_due(NOW, seen=seen)
    return sum('FROM "punctual_job"' in query["sql"] for query in queries)


@pytest.mark.parametrize("seen", [False, True])
def test_locked_cursors_and_their_jobs_equal_the_rows(seen: bool) -> None:  # noqa: FBT001
    for number in range(3):
        make(f"job {number}", config={"queue": f"q{number}"}, paused_at=NOW if number else None)
        Cursor.objects.filter(job__name=f"job {number}").update(plan_at=NOW - timedelta(seconds=number))
    known = seen_by_firing() if seen else {}
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        locked = lock_cursors(Cursor.objects.due(NOW), 10, known)
        names = [cursor.job.name for cursor in locked]
    assert names == ["job 2", "job 1", "job 0"]
    assert len([query for query in queries if query["sql"].startswith("SELECT")]) == (1 if seen else 2)
    for cursor in locked:
        same = Cursor.objects.select_related("job").get(pk=cursor.job_id)
        for row, stored, columns in ((cursor, same, CURSOR_COLUMNS), (cursor.job, same.job, JOB_COLUMNS)):
            assert [getattr(row, name) for name in columns] == [getattr(stored, name) for name in columns]


def test_a_column_that_was_not_read_is_fetched_on_access() -> None:
    make("job", metadata={"team": "billing"})
    with transaction.atomic():
        (cursor,) = lock_cursors(Cursor.objects.due(NOW), 10, {})
    assert cursor.job.metadata == {"team": "billing"}


def test_jobs_that_firing_has_seen_are_planned_as_if_they_were_read() -> None:
    make("hourly")
    make("often", "*/10 * * * * *", config={"priority": 3, "overlap": "allow"})
    make("spread", "@every 30m {stagger:5m, jitter:30s, window:2m}")
    make("over", "0 12 5 1 * {until:2026-01-05T12:00:00Z}")
    make("delay", "delay:10m")
    Job.objects.filter(name="hourly").update(paused_at=NOW)
    make("broken")
    Job.objects.filter(name="broken").update(config={"priority": "high"})
    Cursor.objects.filter(job__name="broken").update(planned_until=NOW, plan_at=NOW)
    make("behind")
    Cursor.objects.filter(job__name="behind").update(planned_until=NOW - HOUR, plan_at=NOW - HOUR)
    expected = planned_without_seen()
    seen = seen_by_firing()
    assert len(seen) == 7
    assert plan_due(NOW, seen=seen).jobs == 7
    assert ledger() == expected
    assert plan_due(NOW, seen=seen) == Planned(), "nothing is left"


def test_a_seen_job_is_not_read_again() -> None:
    make("seen")
    assert reads_of_jobs(seen_by_firing()) == 0


def test_a_job_that_was_edited_since_is_planned_by_its_new_definition() -> None:
    job, other = make("edited"), make("other")
    seen = seen_by_firing()
    Job.objects.filter(id=job.id).update(schedule="30 * * * *", updated_at=NOW)
    assert plan_due(NOW, seen=seen) == Planned(jobs=2, instants=2)
    ahead = Occurrence.objects.filter(scheduled_for__gt=NOW).order_by("scheduled_for")
    assert list(ahead.values_list("job_id", "scheduled_for")) == [
        (job.id, NOW + HOUR / 2),
        (other.id, NOW + HOUR),
    ]


def test_a_job_that_was_edited_and_planned_since_is_read_again() -> None:
    job = make("edited")
    seen = seen_by_firing()
    Job.objects.filter(id=job.id).update(schedule="* * * * *", updated_at=NOW)
    plan_due(NOW)
    Cursor.objects.update(plan_at=NOW)
    assert reads_of_jobs(seen) == 1


def test_a_job_that_was_disabled_since_is_not_planned() -> None:
    job = make("disabled")
    seen = seen_by_firing()
    Job.objects.filter(id=job.id).update(enabled=False)
    plan_due(NOW, seen=seen)
    assert not Occurrence.objects.filter(scheduled_for__gt=NOW).exists()


def test_what_another_beat_has_planned_since_is_left_alone() -> None:
    make("hourly")
    seen = seen_by_firing()
    plan_due(NOW)
    expected = ledger()
    assert plan_due(NOW, seen=seen) == Planned()
    assert ledger() == expected


def test_starts_counted_since_are_respected() -> None:
    job = make("twice", "0 * * * * {max:2}")
    seen = seen_by_firing()
    Cursor.objects.filter(job=job).update(starts=2)
    assert plan_due(NOW, seen=seen).instants == 0


def test_planning_seen_jobs_takes_a_constant_number_of_statements() -> None:
    costs = []
    for size in (1, 20):
        for number in range(size):
            make(f"job {size} {number}")
        seen = seen_by_firing()
        with CaptureQueriesContext(connection) as queries:
            assert plan_due(NOW, seen=seen).instants >= size
        costs.append(len(queries))
        Occurrence.objects.all().delete()
    assert costs[0] == costs[1]
