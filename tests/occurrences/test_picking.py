from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.models import Job, Task
from occurrences.models import Cursor, Occurrence
from occurrences.picking import Picked, pick, pick_by_orm
from occurrences.states import OccurrenceState
from tests.occurrences.ledger import a_job, a_task, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-2", "OCC-4")]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def make(name: str, tasks: int = 1, **columns: Any) -> Job:
    job = saved(a_job(name, NOW - SECOND, **columns))
    for position in reversed(range(tasks)):
        saved(a_task(job, f"step {position}", position=position))
    Cursor.objects.filter(job=job).update(planned_until=NOW, plan_at=NOW, starts=len(name))
    return job


@pytest.fixture
def ledger() -> list[Job]:
    """Of everything that admission and opening look at, one."""
    plain, wide, empty = make("plain"), make("wide", tasks=3), make("none", tasks=0)
    broken, odd, edited = make("broken", config={}), make("odd", tasks=2), make("edited")
    for number, job in enumerate((plain, wide, empty, broken, edited)):
        saved(an_occurrence(job, NOW - number * SECOND, priority=number))
    saved(an_occurrence(plain, NOW + SECOND))  # not due
    saved(an_occurrence(wide, NOW - 9 * SECOND, late_at=NOW))  # late
    saved(an_occurrence(wide, NOW - 8 * SECOND, OccurrenceState.QUEUED))
    only = [str(Task.objects.get(job=odd, position=1).id)]
    chosen: dict[str, Any] = {
        "overrides": {"task_timeout": "7s"},
        "only_tasks": only,
        "expires_at": NOW + SECOND,
    }
    saved(an_occurrence(odd, NOW, cause="replay", **chosen))
    Task.objects.filter(job=broken).update(config={"queue": 7})
    Task.objects.filter(job=odd, position=0).update(retired_at=NOW)
    Job.objects.filter(id=plain.id).update(paused_at=NOW)
    Cursor.objects.filter(job=edited).update(planned_until=None)
    return [plain, wide, empty, broken, odd]


def facts(picked: Picked) -> dict[str, Any]:
    """Without what only PostgreSQL brings along for planning; see test_foresight."""
    return vars(picked) | {"rows": sorted(picked.rows), "plans": {}}


@pytest.mark.postgres
def test_postgresql_is_asked_the_same_and_answers_the_same(ledger: list[Job]) -> None:
    assert facts(pick(NOW, 100)) == facts(pick_by_orm(NOW, 100))


def test_what_is_due_comes_with_all_that_is_asked_about_it(ledger: list[Job]) -> None:
    picked = pick(NOW, 100)
    jobs = {job.name: str(job.id) for job in ledger}
    assert picked.found == 6
    assert {row.job for row in picked.rows} == set(jobs), "an edited one waits until it is planned anew"
    assert picked.starts == {id_: len(name) for name, id_ in jobs.items()}
    assert picked.broken == {jobs["broken"]}
    assert picked.busy == {jobs["wide"]}
    names = {job: [step.name for step in steps] for job, steps in picked.steps.items()}
    assert names == {
        jobs["plain"]: ["step 0"],
        jobs["wide"]: ["step 0", "step 1", "step 2"],
        jobs["odd"]: ["step 1"],
    }


def test_no_more_are_taken_than_asked_for_and_the_earliest_first(ledger: list[Job]) -> None:
    picked = pick(NOW, 2)
    assert (picked.found, [row.job for row in picked.rows]) == (2, ["broken"])


def test_nothing_due_picks_nothing() -> None:
    assert pick(NOW, 10) == Picked()
    assert not Occurrence.objects.exists()
    assert connection.in_atomic_block
