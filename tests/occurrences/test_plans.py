"""What PostgreSQL does for the questions of every tick, with a long history and much planned ahead."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from beat.tick import sleep_for
from jobs.models import Job
from jobs.registry import registry
from jobs.sync import sync
from occurrences.firing import fire_due
from occurrences.materialize import plan_due
from occurrences.models import Cursor, Occurrence, Pool, TaskRun
from occurrences.states import OccurrenceState, RunState
from occurrences.waiting import SPARE, admit_waiting
from recovery.catchup import catch_up
from recovery.oldest import Keeps, oldest
from recovery.pruning import prune_some
from recovery.retries import release_due
from recovery.sweep import run_once as sweep
from tests.occurrences.ledger import a_job, a_run, a_task, an_occurrence, saved

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
S = OccurrenceState
LONG = ("occurrences_occurrence", "occurrences_taskrun")


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
    Cursor.objects.update(planned_until=NOW + HOUR, plan_at=NOW + HOUR)
    Cursor.objects.filter(job__in=jobs[:5]).update(planned_until=NOW, plan_at=NOW)
    Pool.objects.create(name="default", size=1000)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(LONG)}")
    return jobs


def read_whole(step: Callable[[], object]) -> dict[str, str]:
    """Statements of the step that read a long table from end to end, each with its plan."""
    with CaptureQueriesContext(connection) as queries:
        step()
    asked = [
        query["sql"] for query in queries if query["sql"].lstrip("( \n").startswith(("SELECT", "UPDATE"))
    ]
    plans = {sql: explained(sql) for sql in asked}
    return {sql: plan for sql, plan in plans.items() if any(f"Seq Scan on {name}" in plan for name in LONG)}


def explained(sql: str) -> str:
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
        lambda: release_due(NOW),
        lambda: sweep(NOW),
    ],
    ids=["sleep_for", "catch_up", "fire_due", "plan_due", "release_due", "sweep"],
)
def test_a_step_of_a_tick_reads_what_is_due_and_not_the_ledger(
    ledger: list[Job], step: Callable[[], Any]
) -> None:
    assert read_whole(step) == {}


@pytest.mark.req("JOB-10")
def test_starting_reads_the_jobs_declared_in_code_and_no_others(ledger: list[Job]) -> None:
    with registry.isolated(), CaptureQueriesContext(connection) as queries:
        sync(NOW)
    (asked,) = [query["sql"] for query in queries if "'code'" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # a hundred jobs fit into one page
    assert "job_declared" in explained(asked)


@pytest.mark.req("OCC-4")
def test_whether_a_job_is_busy_is_asked_of_its_open_occurrences_and_not_of_its_history(
    ledger: list[Job],
) -> None:
    with CaptureQueriesContext(connection) as queries:
        fire_due(NOW)
    (asked,) = [query["sql"] for query in queries if "'queued', 'dispatched'" in query["sql"]]
    assert "occurrence_history" not in explained(asked)


@pytest.mark.req("OCC-6")
def test_one_free_slot_reads_and_locks_a_few_of_a_long_line(ledger: list[Job]) -> None:
    Occurrence.objects.filter(state=S.COMPLETED).delete()
    lines = [a_job(f"waiting {n}", NOW, origin="file") for n in range(300)]
    Job.objects.bulk_create(lines)
    for job in lines:
        saved(a_task(job))
    Occurrence.objects.bulk_create(an_occurrence(job, NOW, S.QUEUED, reason="pool") for job in lines)
    Pool.objects.update(size=1)
    with CaptureQueriesContext(connection) as queries:
        assert len(admit_waiting(jobs=[lines[0].id], pools=["default"], now=NOW)) == 1
    (locking,) = [
        query["sql"]
        for query in queries
        if "occurrences_cursor" in query["sql"] and "FOR NO KEY" in query["sql"]
    ]
    assert locking.count(",") <= SPARE + 10


@pytest.mark.req("REC-6")
def test_pruning_asks_the_index_of_each_job_for_its_oldest_rows_and_reads_nothing_it_keeps(
    ledger: list[Job],
) -> None:
    Job.objects.update(config={"retention": "20h"})
    assert read_whole(lambda: prune_some(NOW, rows=50)) == {}
    jobs = sorted((Keeps(job.id, NOW - 20 * HOUR) for job in ledger), key=attrgetter("job_id"))
    with CaptureQueriesContext(connection) as queries:
        assert len(oldest(jobs, 50)) == 50
    assert "using occurrence_history" in explained(queries[0]["sql"])
