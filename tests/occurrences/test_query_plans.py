"""The query plans of a tick on PostgreSQL, with a long history and many rows planned ahead."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.beat.tick import sleep_for
from punctual.jobs.declaration.registry import registry
from punctual.jobs.declaration.sync import sync
from punctual.jobs.models import Job
from punctual.occurrences.admission.firing import fire_due
from punctual.occurrences.admission.waiting import SPARE_CANDIDATES, admit_waiting
from punctual.occurrences.engines.contract import Cutoff
from punctual.occurrences.models import Cursor, Occurrence, Pool, TaskRun
from punctual.occurrences.planning.materialize import plan_due
from punctual.occurrences.states import OccurrenceState, Reason, RunState
from punctual.recovery.catchup import catch_up
from punctual.recovery.pruning import prune_step
from punctual.recovery.retention import oldest_rows
from punctual.recovery.sweeper.retries import release_due_retries
from punctual.recovery.sweeper.sweep import run_once as sweep
from tests.occurrences.factories import a_job, a_run, a_task, an_occurrence, mark_planned, saved

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
S = OccurrenceState
LONG = ("punctual_occurrence", "punctual_taskrun")


@pytest.fixture
def ledger(db: None) -> list[Job]:
    """A hundred jobs, each with forty finished occurrences and one planned ahead; five of them are due."""
    jobs = Job.objects.bulk_create(a_job(f"job {n}", NOW - 99 * HOUR, origin="file") for n in range(100))
    tasks = {job.id: saved(a_task(job)) for job in jobs}
    rows = [
        an_occurrence(job, NOW - n * HOUR, S.COMPLETED, finalized_at=NOW)
        for job in jobs
        for n in range(1, 41)
    ]
    Occurrence.objects.bulk_create(rows)
    TaskRun.objects.bulk_create(
        a_run(row, tasks[row.job_id], RunState.SUCCESS, id=uuid4(), dispatched_at=NOW) for row in rows
    )
    Occurrence.objects.bulk_create(
        an_occurrence(job, NOW if n < 5 else NOW + HOUR) for n, job in enumerate(jobs)
    )
    mark_planned(NOW, planned_until=NOW + HOUR, plan_at=NOW + HOUR)
    Cursor.objects.filter(job__in=jobs[:5]).update(planned_until=NOW, plan_at=NOW)
    Pool.objects.create(name="default", size=1000)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(LONG)}")
    return jobs


def full_scans(step: Callable[[], object]) -> dict[str, str]:
    """Statements of the step that scan a long table, each with its plan."""
    with CaptureQueriesContext(connection) as queries:
        step()
    asked = [
        query["sql"] for query in queries if query["sql"].lstrip("( \n").startswith(("SELECT", "UPDATE"))
    ]
    plans = {sql: explain(sql) for sql in asked}
    return {sql: plan for sql, plan in plans.items() if any(f"Seq Scan on {name}" in plan for name in LONG)}


def explain(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.mark.req("OCC-2")
@pytest.mark.parametrize(
    "step",
    [
        lambda: sleep_for(NOW),
        lambda: catch_up(NOW),
        lambda: fire_due(NOW),
        lambda: plan_due(NOW),
        lambda: release_due_retries(NOW),
        lambda: sweep(NOW),
    ],
    ids=["sleep_for", "catch_up", "fire_due", "plan_due", "release_due", "sweep"],
)
def test_a_step_of_a_tick_reads_due_rows_and_not_the_whole_ledger(
    ledger: list[Job], step: Callable[[], Any]
) -> None:
    assert full_scans(step) == {}


@pytest.mark.req("JOB-10")
def test_starting_reads_the_jobs_declared_in_code_and_no_others(ledger: list[Job]) -> None:
    with registry.isolated(), CaptureQueriesContext(connection) as queries:
        sync(NOW)
    (asked,) = [query["sql"] for query in queries if "'code'" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # a hundred jobs fit into one page
    assert "job_declared" in explain(asked)


@pytest.mark.req("OCC-4")
def test_checking_whether_a_job_is_busy_reads_its_open_occurrences_and_not_its_history(
    ledger: list[Job],
) -> None:
    with CaptureQueriesContext(connection) as queries:
        fire_due(NOW)
    (asked,) = [query["sql"] for query in queries if "'queued', 'dispatched'" in query["sql"]]
    assert "occurrence_history" not in explain(asked)


@pytest.mark.req("OCC-6")
def test_one_free_slot_reads_and_locks_few_rows_of_a_long_queue(ledger: list[Job]) -> None:
    Occurrence.objects.filter(state=S.COMPLETED).delete()
    lines = [a_job(f"waiting {n}", NOW, origin="file") for n in range(300)]
    Job.objects.bulk_create(lines)
    for job in lines:
        saved(a_task(job))
    Occurrence.objects.bulk_create(an_occurrence(job, NOW, S.QUEUED, reason=Reason.POOL) for job in lines)
    mark_planned(NOW, planned_until=NOW + HOUR)
    Pool.objects.update(size=1)
    with CaptureQueriesContext(connection) as queries:
        assert len(admit_waiting(jobs=[lines[0].id], pools=["default"], now=NOW)) == 1
    (locking,) = [
        query["sql"]
        for query in queries
        if "punctual_cursor" in query["sql"] and "FOR NO KEY" in query["sql"]
    ]
    assert locking.count(",") <= SPARE_CANDIDATES + 10


@pytest.mark.req("REC-6")
def test_pruning_reads_the_oldest_rows_of_each_job_by_index_and_no_row_it_keeps(
    ledger: list[Job],
) -> None:
    Job.objects.update(config={"retention": "20h"})
    assert full_scans(lambda: prune_step(NOW, rows=50)) == {}
    jobs = sorted((Cutoff(job.id, NOW - 20 * HOUR) for job in ledger), key=attrgetter("job_id"))
    with CaptureQueriesContext(connection) as queries:
        assert len(oldest_rows(jobs, 50)) == 50
    assert "using occurrence_history" in explain(queries[0]["sql"])
