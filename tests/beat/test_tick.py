import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import connection
from django.db.models import Count
from django.test.utils import CaptureQueriesContext

from punctual.beat import tick
from punctual.beat.tick import MAX_SLEEP, Ticked, sleep_for
from punctual.jobs.models import Job, Task
from punctual.jobs.store.raw_edits import record_raw_edits
from punctual.occurrences.models import Cursor, Occurrence, Pool, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.pruning import prune_step
from tests.execution.conftest import NOW, redis_down
from tests.harness import Harness
from tests.occurrences.factories import a_job, a_run, a_task, an_occurrence, mark_planned, saved

S, R = OccurrenceState, RunState
SECOND = timedelta(seconds=1)
SQLITE = connection.vendor == "sqlite"


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


@pytest.fixture
def planned(job: Job, task: Task) -> Job:
    """A job that needs no planning for an hour."""
    mark_planned(NOW, plan_at=NOW + timedelta(hours=1), planned_until=NOW + timedelta(hours=1))
    return job


@pytest.mark.django_db
def test_a_tick_of_an_empty_ledger_is_quiet() -> None:
    ticked = tick.run_once(NOW, sweeping=False)
    assert ticked == Ticked()
    assert ticked.quiet


@pytest.mark.parametrize("count", ["planned", "fired", "queued", "skipped", "missed", "retried", "contended"])
def test_a_tick_that_did_anything_is_not_quiet(count: str) -> None:
    assert not replace(Ticked(), **{count: 1}).quiet  # type: ignore[arg-type]  # counts are integers


@pytest.mark.django_db
def test_one_tick_plans_fires_retries_and_sends(queue: Harness) -> None:
    config = {"recovery": "mark_as_missed"}
    fresh = saved(a_job("fresh", NOW - 90 * SECOND, schedule="* * * * *", config=config))
    saved(a_task(fresh))
    failed = saved(a_job("failed", NOW))
    run = saved(a_run(saved(an_occurrence(failed, NOW, S.RUNNING)), saved(a_task(failed)), R.RETRY))
    ticked = tick.run_once(NOW, sweeping=False)
    assert (ticked.fired, ticked.retried, ticked.missed) == (1, 1, 1)
    assert (ticked.planned, ticked.swept) == (4, None), "three of one job, one of the other"
    assert queue.lose_messages() == 2
    run.refresh_from_db()
    assert (run.state, run.dispatched_at) == ("scheduled", NOW)


@pytest.mark.req("REC-1")
def test_one_tick_works_off_a_long_backlog(queue: Harness, db: None) -> None:
    config = {"misfire_grace": "1d", "overlap": "skip"}
    job = saved(a_job("job", NOW - 2500 * SECOND, schedule="* * * * * *", config=config))
    saved(a_task(job))
    ticked = tick.run_once(NOW, sweeping=False)
    assert (ticked.planned, ticked.fired, ticked.skipped) == (2560, 1, 2499)
    assert Occurrence.objects.filter(state=S.PENDING).count() == 60
    assert queue.lose_messages() == 1


@pytest.mark.req("OCC-7")
def test_a_tick_without_a_broker_creates_and_fires_occurrences(queue: Harness, db: None) -> None:
    job = saved(a_job("job", NOW - SECOND, schedule="* * * * *", config={"mode": "parallel"}))
    for number in range(2):
        saved(a_task(job, f"step {number}", position=number))
    with redis_down():
        assert tick.run_once(NOW).fired == 1
    assert TaskRun.objects.filter(dispatched_at=None).count() == 2
    tick.run_once(NOW + 5 * SECOND)
    assert queue.lose_messages() == 2


def test_the_sleep_ends_exactly_when_the_next_occurrence_is_due(planned: Job) -> None:
    saved(an_occurrence(planned, NOW, run_at=NOW + timedelta(milliseconds=123)))
    saved(an_occurrence(planned, NOW + SECOND, run_at=NOW + timedelta(milliseconds=456)))
    assert sleep_for(NOW) == timedelta(milliseconds=123)


def test_the_sleep_ends_exactly_when_the_next_retry_is_due(planned: Job, task: Task) -> None:
    occurrence = saved(an_occurrence(planned, NOW, S.RUNNING))
    saved(a_run(occurrence, task, R.RETRY, available_at=NOW + timedelta(milliseconds=77)))
    assert sleep_for(NOW) == timedelta(milliseconds=77)


def test_the_sleep_ends_exactly_when_planning_is_next_needed(planned: Job) -> None:
    Cursor.objects.update(plan_at=NOW + timedelta(milliseconds=5))
    assert sleep_for(NOW) == timedelta(milliseconds=5)


def test_an_overdue_occurrence_allows_no_sleep_and_never_a_negative_one(planned: Job) -> None:
    saved(an_occurrence(planned, NOW - SECOND))
    assert sleep_for(NOW) == timedelta()


def test_the_sleep_is_at_most_a_second(planned: Job) -> None:
    assert sleep_for(NOW) == MAX_SLEEP
    saved(an_occurrence(planned, NOW + timedelta(days=1)))
    assert sleep_for(NOW) == MAX_SLEEP
    Cursor.objects.update(plan_at=None)
    assert sleep_for(NOW) == MAX_SLEEP


@pytest.mark.parametrize("state", [S.QUEUED, S.DISPATCHED, S.RUNNING, S.COMPLETED])
def test_an_occurrence_that_is_not_pending_does_not_shorten_the_sleep(
    planned: Job, state: OccurrenceState
) -> None:
    saved(an_occurrence(planned, NOW - SECOND, state))
    assert sleep_for(NOW) == MAX_SLEEP


@pytest.mark.req("OCC-8")
def test_a_tick_writes_no_row_that_users_edit(queue: Harness, db: None) -> None:
    broken = saved(a_job("broken", NOW - 90 * SECOND, schedule="* * * * *", config={"overlap": "none"}))
    job = saved(a_job("job", NOW - 90 * SECOND, schedule="* * * * *", config={"mode": "parallel"}))
    for owner in (job, broken):
        saved(a_task(owner))
    saved(a_run(saved(an_occurrence(job, NOW - SECOND, S.RUNNING)), job.tasks.get(), R.RETRY))
    Pool.objects.create(name="default", size=3)
    before = user_rows()
    written: list[str] = []

    def watch(execute: Any, sql: str, *args: Any) -> Any:
        written.append(sql)
        return execute(sql, *args)

    with connection.execute_wrapper(watch):
        tick.run_once(NOW)
        tick.run_once(NOW + 40 * SECOND)

    changes = [sql for sql in written if not sql.lstrip().startswith(("SELECT", "SAVEPOINT", "RELEASE"))]
    assert changes
    assert not [sql for sql in changes if re.search(r'(UPDATE|INTO|DELETE FROM) "?jobs_', sql)]
    assert user_rows() == before


def user_rows() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Job, Task, Pool)]


@pytest.mark.req("OCC-7")
def test_each_batch_is_sent_before_the_next_is_fired(queue: Harness, db: None) -> None:
    Pool.objects.create(name="default", size=10_000)
    make_due(7)
    moments = iter([NOW + SECOND, NOW + 2 * SECOND, NOW + 3 * SECOND])
    ticked = tick.run_once(NOW, sweeping=False, batch=3, clock=lambda: next(moments))
    assert (ticked.fired, ticked.more) == (7, False)
    sent = TaskRun.objects.values_list("dispatched_at").annotate(runs=Count("pk")).order_by("dispatched_at")
    assert list(sent) == [(NOW + SECOND, 3), (NOW + 2 * SECOND, 3), (NOW + 3 * SECOND, 1)]
    assert queue.lose_messages() == 7


@pytest.mark.parametrize(("due", "rounds"), [(2, 1), (3, 1), (4, 2)])
def test_a_tick_takes_another_round_only_if_more_is_due(
    queue: Harness, db: None, due: int, rounds: int
) -> None:
    Pool.objects.create(name="default", size=10_000)
    make_due(due)
    with CaptureQueriesContext(connection) as queries:
        assert tick.run_once(NOW, sweeping=False, batch=3).fired == due
    inserts = [query for query in queries if "INTO punctual_taskrun" in query["sql"].replace('"', "")]
    timely = [query for query in queries if query["sql"].startswith("SELECT 1") and "OR" in query["sql"]]
    assert (len(inserts), len(timely)) == (rounds, rounds)
    assert queue.lose_messages() == due


def test_a_tick_with_nothing_due_asks_six_questions_and_takes_no_lock(queue: Harness, db: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert tick.run_once(NOW, sweeping=False).quiet
    assert [query["sql"].split(" AS ")[0] for query in queries] == ["SELECT 1"] * 6


def test_a_tick_limited_to_few_rounds_reports_that_more_is_due(queue: Harness, db: None) -> None:
    Pool.objects.create(name="default", size=10_000)
    make_due(4)
    first = tick.run_once(NOW, sweeping=False, rounds=1, batch=3)
    assert (first.fired, first.more) == (3, True)
    assert sleep_for(NOW) == timedelta()
    second = tick.run_once(NOW, sweeping=False, rounds=3, batch=3)
    assert (second.fired, second.more) == (1, False)
    assert queue.lose_messages() == 4


@pytest.mark.req("OCC-2")
def test_a_tick_needs_the_same_number_of_statements_for_a_thousand_due_as_for_ten(
    queue: Harness, db: None
) -> None:
    Pool.objects.create(name="default", size=10_000)
    prune_step(NOW)  # the next round of pruning starts in a minute
    costs = {}
    # SQLite splits longer lists of values.
    sizes = ((5, 0), (20, 0), (20, 200)) if SQLITE else ((10, 0), (100, 0), (1000, 0), (10, 5000))
    for size, others in sizes:
        make_due(size)
        make_jobs(others, plan_at=NOW + timedelta(hours=1))
        with CaptureQueriesContext(connection) as queries:
            assert tick.run_once(NOW).fired == size
        costs[size, others] = len(queries)
        Occurrence.objects.all().delete()
        Job.objects.all().delete()
        purge_queue()
    assert len(set(costs.values())) == 1, costs


def purge_queue() -> None:
    with current_app.connection_for_write() as broker:
        channel: Any = broker.default_channel
        channel.queue_purge("default")


def make_due(count: int) -> None:
    """`count` jobs with one task, each with an occurrence due now and the next one not planned."""
    jobs = make_jobs(count, plan_at=NOW)
    Occurrence.objects.bulk_create(an_occurrence(job, NOW) for job in jobs)


def make_jobs(count: int, *, plan_at: datetime) -> list[Job]:
    existing = Job.objects.count()
    jobs = [a_job(f"job {existing + number}", NOW - timedelta(days=1)) for number in range(count)]
    Job.objects.bulk_create(jobs)
    Task.objects.bulk_create(a_task(job) for job in jobs)
    record_raw_edits(jobs, now=NOW)
    new = Cursor.objects.filter(planned_until=None)
    new.update(planned_until=plan_at, settled_until=plan_at, plan_at=plan_at)
    return jobs
