import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from beat import tick
from beat.tick import LONGEST_SLEEP, Ticked, sleep_for
from jobs.models import Job, Task
from occurrences.models import Cursor, Occurrence, Pool, TaskRun
from occurrences.states import OccurrenceState, RunState
from tests.execution.conftest import NOW, redis_down
from tests.harness import Harness
from tests.occurrences.ledger import a_job, a_run, a_task, an_occurrence, saved

S, R = OccurrenceState, RunState
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


@pytest.fixture
def planned(job: Job) -> Job:
    """A job that needs no planning for a long while."""
    Cursor.objects.update(plan_at=NOW + timedelta(hours=1), planned_until=NOW + timedelta(hours=1))
    return job


@pytest.mark.django_db
def test_an_empty_ledger_is_a_quiet_tick() -> None:
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
    assert (ticked.planned, ticked.swept) == (4, None), "three of the one, one of the other"
    assert queue.lose_messages() == 2
    run.refresh_from_db()
    assert (run.state, run.dispatched_at) == ("scheduled", NOW)


@pytest.mark.req("REC-1")
def test_a_long_backlog_is_worked_off_in_one_tick(queue: Harness, db: None) -> None:
    config = {"misfire_grace": "1d", "overlap": "skip"}
    job = saved(a_job("job", NOW - 2500 * SECOND, schedule="* * * * * *", config=config))
    saved(a_task(job))
    ticked = tick.run_once(NOW, sweeping=False)
    assert (ticked.planned, ticked.fired, ticked.skipped) == (2560, 1, 2499)
    assert Occurrence.objects.filter(state=S.PENDING).count() == 60
    assert queue.lose_messages() == 1


@pytest.mark.req("OCC-7")
def test_a_tick_without_a_broker_creates_and_fires_all_the_same(queue: Harness, db: None) -> None:
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


def test_what_is_overdue_allows_no_sleep_and_never_a_negative_one(planned: Job) -> None:
    saved(an_occurrence(planned, NOW - SECOND))
    assert sleep_for(NOW) == timedelta()


def test_nothing_ahead_or_far_ahead_sleeps_a_second_at_most(planned: Job) -> None:
    assert sleep_for(NOW) == LONGEST_SLEEP
    saved(an_occurrence(planned, NOW + timedelta(days=1)))
    assert sleep_for(NOW) == LONGEST_SLEEP
    Cursor.objects.update(plan_at=None)
    assert sleep_for(NOW) == LONGEST_SLEEP


@pytest.mark.parametrize("state", [S.QUEUED, S.DISPATCHED, S.RUNNING, S.COMPLETED])
def test_what_does_not_wait_for_a_time_keeps_nobody_awake(planned: Job, state: OccurrenceState) -> None:
    saved(an_occurrence(planned, NOW - SECOND, state))
    assert sleep_for(NOW) == LONGEST_SLEEP


@pytest.mark.req("OCC-8")
def test_a_tick_that_does_everything_writes_no_row_a_user_edits(queue: Harness, db: None) -> None:
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
