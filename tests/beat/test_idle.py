"""An idle beat asks one question a second; anything to do makes it tick."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from punctual import Job as DeclaredJob
from punctual.beat.celery_scheduler import Scheduler
from punctual.beat.postgres import idle_time
from punctual.execution.models import Process
from punctual.execution.supervision import presence
from punctual.jobs.clock import database_now
from punctual.jobs.declaration.registry import Registry
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.models import PruneRound
from tests.beat.test_celery_scheduler import noop, scheduler
from tests.harness import Harness
from tests.occurrences.factories import a_job, a_run, a_task, an_occurrence, mark_planned, saved
from tests.race.test_lock_order import other_transaction

__all__ = ["scheduler"]
pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True), pytest.mark.req("OCC-7")]

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture(autouse=True)
def idle(declared: Registry, queue: Harness) -> Job:
    """A beat that has signed in and swept, and a job whose next occurrence is due in an hour."""
    now = database_now()
    job: Job = saved(a_job("job", now - HOUR))
    saved(a_task(job))
    with transaction.atomic():
        mark_planned(now, plan_at=now + HOUR, planned_until=now + HOUR)
    saved(an_occurrence(job, now + HOUR))
    presence.sign_in("beat", Process.Kind.BEAT, now=now - MINUTE)
    PruneRound.objects.create(pk=1, due_at=now + 2 * HOUR, began_at=now)
    return job


def test_an_idle_beat_sleeps_until_the_next_row_is_due_and_renews_its_row() -> None:
    before = database_now()
    time = idle_time("beat")
    assert time is not None
    assert HOUR - MINUTE < time <= HOUR
    assert Process.objects.get(name="beat").seen_at >= before


def occur(job: Job, state: OccurrenceState, **columns: Any) -> Occurrence:
    row: Occurrence = saved(an_occurrence(job, database_now() - HOUR, state, **columns))
    return row


def retry(job: Job) -> None:
    occurrence = occur(job, OccurrenceState.RUNNING)
    task = job.tasks.get()
    saved(a_run(occurrence, task, RunState.RETRY, available_at=database_now()))
    TaskRun.objects.update(available_at=database_now())


WORK: dict[str, Callable[[Job], object]] = {
    "a due occurrence": lambda _: Occurrence.objects.update(run_at=database_now()),
    "a waiting occurrence": lambda job: occur(job, OccurrenceState.QUEUED),
    "a sent occurrence": lambda job: occur(job, OccurrenceState.DISPATCHED),
    "a running occurrence": lambda job: occur(job, OccurrenceState.RUNNING),
    "a hook to call": lambda job: occur(job, OccurrenceState.COMPLETED, finalized_at=None),
    "a due retry": retry,
    "an edited job": lambda _: Job.objects.update(schedule="@hourly"),
    "pruning": lambda _: PruneRound.objects.update(due_at=database_now()),
    "no sweep yet": lambda _: PruneRound.objects.all().delete(),
    "a forgotten beat": lambda _: Process.objects.all().delete(),
}


@pytest.mark.parametrize("work", WORK)
def test_anything_to_do_makes_a_beat_tick(idle: Job, work: str) -> None:
    WORK[work](idle)
    assert idle_time("beat") is None


def test_a_held_process_row_is_not_waited_for() -> None:
    with other_transaction() as other:
        other(lambda: list(Process.objects.select_for_update()))
        assert idle_time("beat") is None


def test_a_turn_of_an_idle_beat_is_one_statement(scheduler: Scheduler) -> None:
    scheduler.turn()
    Process.objects.filter(name="beat").delete()
    with CaptureQueriesContext(
        connection,
    ) as captured:
        delay = scheduler.turn()
    assert 0 < delay <= 1
    assert len([item for item in captured if "punctual_" in item["sql"]]) == 1


def test_a_beat_starts_while_another_session_holds_a_declared_job(idle: Job, declared: Registry) -> None:
    DeclaredJob("job", "@daily").task(noop)
    with other_transaction() as other:
        other(lambda: list(Job.objects.select_for_update()))
        beat = Scheduler(app=current_app)
        beat._finalize.cancel()
        beat.turn()
        assert Process.objects.filter(name=beat.name).exists()
        assert not Job.objects.filter(schedule="@daily").exists()
    beat.turn()
    assert Job.objects.get().schedule == "@daily"
    connection.close()
