import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.jobs.models import Job, JobVersion, Task
from punctual.jobs.store.raw_edits import record_raw_edits
from punctual.occurrences.admission.selection import Selection, select_due
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.cursors import JOB_COLUMNS
from punctual.occurrences.states import OccurrenceState
from tests.occurrences.factories import a_job, a_task, an_occurrence, as_due, saved

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
    """One row of every kind that admission and opening distinguish."""
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
    saved(an_occurrence(odd, NOW, cause="manual", **chosen))
    Task.objects.filter(job=broken).update(config={"queue": 7})
    Task.objects.filter(job=odd, position=0).update(retired_at=NOW)
    Job.objects.filter(id=plain.id).update(paused_at=NOW)
    record_raw_edits(Job.objects.all(), now=NOW)
    Cursor.objects.exclude(job=edited).update(planned_until=NOW, plan_at=NOW)
    Cursor.objects.filter(job=edited).update(planned_until=None)
    return [plain, wide, empty, broken, odd]


def test_a_selection_holds_all_facts_about_the_due_rows(ledger: list[Job]) -> None:
    selection = select_due(NOW, 100)
    jobs = {job.name: str(job.id) for job in ledger}
    assert selection.due_count == 6
    assert {row.job for row in selection.rows} == set(jobs), "an edited job waits until it is planned anew"
    assert selection.starts == {id_: len(name) for name, id_ in jobs.items()}
    owners = {row.id: row.job for row in selection.rows}
    assert {owners[id_] for id_ in selection.broken} == {"broken"}
    assert selection.busy == {jobs["wide"]: "schedule"}
    names = {owners[id_]: [step.name for step in steps] for id_, steps in selection.steps.items()}
    assert names == {"plain": ["step 0"], "wide": ["step 0", "step 1", "step 2"], "odd": ["step 1"]}


def test_a_row_is_read_as_it_is_stored(ledger: list[Job]) -> None:
    """The columns that are not of the plain kind: JSON, keys of JSON, and those of the job."""
    rows = {row.job: row for row in select_due(NOW, 100).rows}
    stored = Occurrence.objects.select_related("job")
    for row in rows.values():
        occurrence = stored.get(id=row.id)
        assert row == as_due(occurrence)._replace(config=row.config, tasks=row.tasks)
        assert json.loads(row.config) == occurrence.config
        version = JobVersion.objects.get(job=occurrence.job_id, number=occurrence.job_version)
        assert json.loads(row.tasks or "") == version.after["tasks"]
    odd, plain = rows["odd"], rows["plain"]
    only = [str(Task.objects.get(job__name="odd", position=1).id)]
    assert (json.loads(odd.overrides), json.loads(odd.only_tasks or "")) == ({"task_timeout": "7s"}, only)
    assert odd.expires_at == NOW + SECOND
    assert (plain.overrides, plain.only_tasks, plain.paused_at) == ("{}", None, NOW)


@pytest.mark.req("OCC-8")
def test_the_jobs_of_a_selection_are_as_stored_with_the_place_of_their_cursors(ledger: list[Job]) -> None:
    seen = select_due(NOW, 100).seen_jobs()
    assert {id_: item.job.id for id_, item in seen.items()} == {str(job.id): job.id for job in ledger}
    for item in seen.values():
        stored = Job.objects.get(id=item.job.id)
        assert [getattr(item.job, name) for name in JOB_COLUMNS] == [
            getattr(stored, name) for name in JOB_COLUMNS
        ]
        cursor = Cursor.objects.get(job=stored)
        assert (item.planned_until, item.plan_at) == (cursor.planned_until, cursor.plan_at)


def test_a_selection_is_limited_and_takes_the_earliest_first(ledger: list[Job]) -> None:
    selection = select_due(NOW, 2)
    assert (selection.due_count, [row.job for row in selection.rows]) == (2, ["broken"])
    assert selection.more


@pytest.mark.parametrize(("limit", "more"), [(5, True), (6, False), (7, False)])
def test_a_selection_says_whether_further_rows_are_due(ledger: list[Job], limit: int, more: bool) -> None:  # noqa: FBT001
    selection = select_due(NOW, limit)
    assert (selection.due_count, selection.more) == (min(limit, 6), more)


def test_a_selection_takes_a_constant_number_of_statements(ledger: list[Job]) -> None:
    with CaptureQueriesContext(connection) as few:
        select_due(NOW, 100)
    for number in range(20):
        saved(an_occurrence(make(f"more {number}", tasks=2), NOW))
    record_raw_edits(Job.objects.all(), now=NOW)
    with CaptureQueriesContext(connection) as many:
        assert len(select_due(NOW, 100).rows) == 25
    assert (len(few), len(many)) == (4, 4)


def test_nothing_due_selects_nothing() -> None:
    assert select_due(NOW, 10) == Selection()
    assert not Occurrence.objects.exists()
    assert connection.in_atomic_block
