from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from punctual.jobs.models import Job
from punctual.occurrences.admission.selection import select_due
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning import foresight
from punctual.occurrences.planning.foresight import Foreseen
from punctual.occurrences.planning.materialize import Planned, plan_due
from tests.occurrences.factories import a_job, a_task, an_occurrence, saved

pytestmark = [pytest.mark.postgres, pytest.mark.django_db, pytest.mark.req("OCC-2", "OCC-8")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
Ledger = tuple[list[Any], list[Any]]


def make(name: str, schedule: str = "0 * * * *", **columns: Any) -> Job:
    """A job that is due now and planned no further."""
    job = saved(a_job(name, NOW - HOUR, schedule=schedule, **columns))
    saved(a_task(job))
    saved(an_occurrence(job, NOW))
    Cursor.objects.filter(job=job).update(settled_until=NOW - SECOND, planned_until=NOW, plan_at=NOW)
    return job


def foreseen() -> Foreseen:
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        read = select_due(NOW, 100).plans.values()
        before = len(asked)
        found = foresight.foresee(read, NOW)
    assert len(asked) == before, "the database is busy meanwhile"
    return found


def ledger() -> Ledger:
    return list(Occurrence.objects.order_by("id").values()), list(Cursor.objects.order_by("job").values())


def plan_ordinarily() -> Ledger:
    with transaction.atomic():
        plan_due(NOW)
        found = ledger()
        transaction.set_rollback(True)
    return found


def test_what_is_foreseen_is_what_would_have_been_planned() -> None:
    make("hourly")
    make("often", "*/10 * * * * *", config={"priority": 3, "overlap": "allow"})
    make("spread", "@every 30m {stagger:5m, jitter:30s, window:2m}")
    make("over", "0 12 5 1 * {until:2026-01-05T12:00:00Z}")
    Job.objects.filter(name="hourly").update(paused_at=NOW)
    make("broken")
    Job.objects.filter(name="broken").update(config={"priority": "high"})
    Cursor.objects.filter(job__name="broken").update(planned_until=NOW, plan_at=NOW)
    expected = plan_ordinarily()
    found = foreseen()
    assert [cursor.job.name for cursor in found.cursors] != []
    planned = foresight.write(found)
    assert (planned.jobs, planned.absorbed) == (5, 0)
    assert ledger() == expected
    assert plan_due(NOW) == Planned(), "nothing is left"


def test_a_job_that_was_edited_since_is_planned_by_its_new_definition() -> None:
    job = make("edited")
    other = make("other")
    found = foreseen()
    Job.objects.filter(id=job.id).update(schedule="30 * * * *", updated_at=NOW)
    assert foresight.write(found) == Planned(jobs=1, instants=1)
    plan_due(NOW)
    ahead = Occurrence.objects.filter(scheduled_for__gt=NOW).order_by("scheduled_for")
    assert list(ahead.values_list("job_id", "scheduled_for")) == [
        (job.id, NOW + HOUR / 2),
        (other.id, NOW + HOUR),
    ]


def test_what_another_beat_has_planned_since_is_left_alone() -> None:
    make("hourly")
    found = foreseen()
    plan_due(NOW)
    expected = ledger()
    assert foresight.write(found) == Planned()
    assert foresight.write(found) == Planned()
    assert ledger() == expected


@pytest.mark.parametrize(
    ("schedule", "cursor"),
    [
        ("0 * * * *", {"planned_until": NOW - HOUR, "plan_at": NOW - HOUR}),  # far behind
        ("0 * * * *", {"planned_until": NOW + HOUR, "plan_at": NOW + HOUR}),  # not due
        ("0 * * * *", {"plan_at": None}),  # nothing ahead
        ("delay:10m", {}),  # its next instant depends on when this one ends
    ],
)
def test_unusual_cursors_are_left_to_ordinary_planning(schedule: str, cursor: dict[str, Any]) -> None:
    job = make("job", schedule)
    Cursor.objects.filter(job=job).update(**cursor)
    assert foreseen() == Foreseen()
    assert foresight.write(Foreseen()) == Planned()


def test_a_plan_is_written_with_a_constant_number_of_statements() -> None:
    costs = []
    for size in (1, 20):
        for number in range(size):
            make(f"job {size} {number}")
        found = foreseen()
        with CaptureQueriesContext(connection) as queries:
            assert foresight.write(found).instants >= size
        costs.append(len(queries))
        Occurrence.objects.all().delete()
    assert costs[0] == costs[1]
