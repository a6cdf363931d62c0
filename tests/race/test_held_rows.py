"""Another session holds one row, as `SELECT … FOR UPDATE` in psql does: only what needs the row waits."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Model, QuerySet

from punctual import Job
from punctual.beat.postgres import Session
from punctual.execution.broker.bundling import Paces
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report, report_free
from punctual.execution.models import Pace
from punctual.execution.worker.claim import claim, report_of_claim
from punctual.execution.worker.connection import close_own_connection, own_connection
from punctual.execution.worker.work import work
from punctual.jobs.ids import job_id
from punctual.jobs.models import Job as JobRow
from punctual.jobs.models import Task
from punctual.occurrences import transitions
from punctual.occurrences.admission.capacity import free_slots
from punctual.occurrences.models import Attempt, Cursor, Occurrence, Pool, TaskRun
from punctual.recovery.sweeper.free_slots import admit_stranded
from punctual.recovery.sweeper.reaper import reap
from tests.harness import Harness
from tests.race.release import noop
from tests.race.test_lock_order import claim_bundle, closing, fire_jobs, other_transaction
from tests.race.threads import TIMEOUT

LONGER_THAN_A_CLAIM_WAITS = 2.5  # seconds
MAX_SECONDS = 1.9  # a tick that waits once takes half a second; jobs may be two seconds late


@contextmanager
def holding(rows: QuerySet[Any]) -> Iterator[None]:
    with other_transaction() as other:
        assert other(lambda: list(rows.select_for_update())), "there is no row to hold"
        yield


@contextmanager
def as_a_beat() -> Iterator[None]:
    """With the session of a beat, in no more than the time that a beat may lose."""
    Session().configure()
    began = time.monotonic()
    try:
        yield
        assert time.monotonic() - began < MAX_SECONDS
    finally:
        connection.close()


def declare(*jobs: str, **options: Any) -> None:
    for name in jobs:
        Job(name, "*/10 * * * * *", **options).task(name="step")(noop)


def plan(harness: Harness) -> None:
    harness.now = harness.now.replace(second=0)
    harness.sync()
    harness.tick()


def started(harness: Harness, job: str) -> int:
    return sum(row.fired_at is not None for row in harness.occurrences(job))


def of_job(model: type[Model], name: str) -> QuerySet[Any]:
    paths = {JobRow: "id", Task: "job", Cursor: "job", Occurrence: "job", TaskRun: "occurrence__job"}
    path = paths.get(model, "run__occurrence__job")
    return model._default_manager.filter(**{path: job_id(name)})


@pytest.mark.req("PRF-2", "OCC-3")
@pytest.mark.parametrize("model", [JobRow, Task, Cursor, Occurrence])
def test_a_held_row_of_one_job_stops_no_other_job(harness: Harness, model: type[Model]) -> None:
    declare("held", "other")
    plan(harness)
    Cursor.objects.update(plan_at=harness.now + timedelta(seconds=10))  # planning needs the rows as well
    harness.pass_time(seconds=10)
    with holding(of_job(model, "held")):
        with as_a_beat():
            harness.tick()
        assert started(harness, "other") == 1
        with as_a_beat():
            harness.pass_time(seconds=10)
            assert harness.tick().careful is (model is Task)
        assert started(harness, "other") == 2 or Occurrence.objects.filter(reason="overlap").exists()
    harness.tick()
    assert started(harness, "held") >= 1
    assert not harness.tick().careful


@pytest.mark.req("PRF-2", "OCC-6")
def test_a_held_row_of_a_pool_stops_nothing(harness: Harness) -> None:
    declare("job")
    plan(harness)
    Pool.objects.get_or_create(name="default", defaults={"size": 50})
    harness.pass_time(seconds=10)
    with holding(Pool.objects.all()), as_a_beat():
        assert harness.tick().fired == 1


@pytest.mark.req("PRF-2", "OCC-6")
def test_a_pool_that_another_process_counts_stops_no_other_pool(harness: Harness) -> None:
    declare("held", pool="narrow")
    declare("other")
    plan(harness)
    Pool.objects.create(name="narrow", size=1)
    harness.pass_time(seconds=10)
    with other_transaction() as other:
        other(lambda: free_slots(["narrow"]))
        with as_a_beat():
            ticked = harness.tick()
        assert (ticked.fired, ticked.careful) == (1, True)
        assert started(harness, "other") == 1
    assert harness.tick().fired == 1


@pytest.mark.req("PRF-2", "REC-3")
@pytest.mark.parametrize("model", [Occurrence, TaskRun, Attempt])
def test_a_held_row_of_a_lost_run_stops_no_other_recovery(harness: Harness, model: type[Model]) -> None:
    first, second = fire_jobs(harness, 2)
    for run in (first, second):
        claim([run.id], worker="w", now=harness.now)
    harness.pass_time(seconds=31)
    with holding(of_job(model, first.occurrence.job.name).exclude(state="pending")):
        with as_a_beat():
            assert reap(harness.now).lost == 1
        second.refresh_from_db()
        assert second.state == "retry"
    assert reap(harness.now).lost == 1


@pytest.mark.req("PRF-2", "REC-3")
@pytest.mark.parametrize("model", [Occurrence, TaskRun, Attempt])
def test_a_held_row_of_an_overdue_occurrence_stops_no_other(harness: Harness, model: type[Model]) -> None:
    first, second = fire_jobs(harness, 2, execution_timeout="20s")
    for run in (first, second):
        claim([run.id], worker="w", now=harness.now)
    harness.pass_time(seconds=21)
    with holding(of_job(model, first.occurrence.job.name).exclude(state="pending")):
        with as_a_beat():
            swept = harness.tick().swept
        assert swept is not None
        assert swept.stale == 1
    swept = harness.tick().swept
    assert swept is not None
    assert swept.stale == 1


@pytest.mark.req("PRF-2", "REC-1")
def test_a_held_late_row_stops_no_other_catch_up(harness: Harness) -> None:
    declare("held", "other", recovery="execute_last", overlap="allow", misfire_grace="10s")
    plan(harness)
    harness.pass_time(seconds=40)
    late = of_job(Occurrence, "held").filter(scheduled_for__lt=harness.now)
    with holding(late):
        with as_a_beat():
            harness.tick()
        assert "missed" in harness.states("other")
        assert "missed" not in harness.states("held")
    harness.tick()
    assert "missed" in harness.states("held")


@pytest.mark.req("PRF-2", "OCC-8")
def test_a_held_row_of_an_edited_job_stops_no_other_edit(harness: Harness) -> None:
    declare("held", "other")
    plan(harness)
    harness.pass_time(seconds=1)
    ahead = of_job(Occurrence, "held").filter(state="pending")
    with holding(ahead):
        JobRow.objects.update(schedule="0 0 1 1 *", updated_at=harness.now)
        with as_a_beat():
            harness.tick()
        assert len(harness.occurrences("other")) == 1
        assert len(harness.occurrences("held")) > 1
    harness.tick()
    assert len(harness.occurrences("held")) == 1


@pytest.mark.req("PRF-2", "OCC-6")
@pytest.mark.parametrize("model", [Cursor, Task, Occurrence])
def test_a_held_row_of_a_waiting_job_stops_no_other_admission(harness: Harness, model: type[Model]) -> None:
    Pool.objects.create(name="default", size=1)
    (run,) = fire_jobs(harness, 3)
    first, second = Occurrence.objects.waiting().order_by("run_at", "id").select_related("job")
    rows = of_job(model, first.job.name)
    rows = rows.filter(state="queued") if model is Occurrence else rows
    with holding(rows):
        work([run.id], worker="w", clock=harness.clock)
        second.refresh_from_db()
        assert second.state == "dispatched"
    Pool.objects.update(size=2)
    assert len(admit_stranded(harness.now)) == 1


@pytest.mark.req("PRF-2", "TSK-2")
@pytest.mark.parametrize("model", [Occurrence, TaskRun])
def test_a_held_run_of_a_bundle_stops_no_other_claim(harness: Harness, model: type[Model]) -> None:
    first, second = fire_jobs(harness, 2)
    rows = of_job(model, first.occurrence.job.name).exclude(state="pending")
    with holding(rows):
        claims = claim([first.id, second.id], worker="w", now=harness.now)
        assert [item.run.id for item in claims] == [second.id]
        assert claim([first.id], worker="w", now=harness.now) == ()
    assert [item.run.id for item in claim([first.id], worker="w", now=harness.now)] == [first.id]


@pytest.mark.req("PRF-2", "TSK-2")
def test_a_worker_waits_for_the_sender_of_its_message(harness: Harness) -> None:
    """The message arrives while the beat that sent it still holds the run."""
    (run,) = fire_jobs(harness, 1)
    TaskRun.objects.update(dispatched_at=None)
    with ThreadPoolExecutor(1) as pool:
        with other_transaction() as sender:
            sender(lambda: list(TaskRun.objects.filter(id=run.id).select_for_update(no_key=True)))
            claiming = pool.submit(closing, partial(claim, [run.id], worker="w", now=harness.now))
            with pytest.raises(TimeoutError):
                claiming.result(LONGER_THAN_A_CLAIM_WAITS)
            sender(partial(transitions.confirm_dispatch, [run.id], now=harness.now))
        assert [item.run.id for item in claiming.result(TIMEOUT)] == [run.id]


@pytest.mark.req("PRF-2", "TSK-9")
@pytest.mark.parametrize("ending", [Ending.SUCCESS, Ending.FATAL])
@pytest.mark.parametrize("model", [Occurrence, TaskRun])
def test_a_held_run_of_a_bundle_delays_no_other_result(
    harness: Harness, model: type[Model], ending: Ending
) -> None:
    runs = fire_jobs(harness, 3)
    claims = claim_bundle(harness, runs)
    reports = [report_of_claim(item, Result(ending, error_type="Broken")) for item in claims]
    held = runs[1]

    def others_have_ended() -> bool:
        rows = TaskRun.objects.exclude(id=held.id)
        return not rows.filter(state="claimed").exists()

    with ThreadPoolExecutor(1) as pool:
        with holding(of_job(model, held.occurrence.job.name).exclude(state="pending")):
            reporting = pool.submit(closing, partial(report, reports, now=harness.now))
            deadline = time.monotonic() + 10
            while not others_have_ended() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert others_have_ended()
            assert not reporting.done()
        assert len(reporting.result(TIMEOUT).finished) == 3


@pytest.mark.req("PRF-2", "TSK-3")
def test_a_supervisor_reports_what_is_free_and_keeps_the_rest(harness: Harness) -> None:
    runs = fire_jobs(harness, 2)
    claims = claim_bundle(harness, runs)
    reports = [report_of_claim(item, Result(Ending.SUCCESS)) for item in claims]
    with holding(Occurrence.objects.filter(id=runs[0].occurrence_id)):
        settled, left = report_free(reports, now=harness.now)
        assert settled.finished == (runs[1].occurrence_id,)
        assert [item.begun.run for item in left] == [runs[0].id]
    settled, left = report_free(left, now=harness.now)
    assert settled.finished == (runs[0].occurrence_id,)
    assert not left


@pytest.mark.req("PRF-2", "TSK-2")
@pytest.mark.parametrize("known", [True, False])
def test_a_held_pace_delays_no_worker(harness: Harness, *, known: bool) -> None:
    runs = fire_jobs(harness, 2)
    first, second = (run.task_id for run in runs)
    if known:
        Pace.objects.create(task_id=first, p95=1, samples=10, measured_at=harness.now)
    rows: QuerySet[Any] = Pace.objects.all() if known else Task.objects.filter(id=first)
    paces = Paces()
    for _ in range(10):
        paces.note(first, 0.001)
        paces.note(second, 0.001)
    with holding(rows):
        paces.write([first, second], now=harness.now)
        assert Pace.objects.get(task=second).p95 == 0.001
    later = Paces()
    for _ in range(10):
        later.note(first, 0.001)
    later.write([first], now=harness.now)
    assert Pace.objects.get(task=first).p95 == 0.001


@pytest.mark.req("PRF-2", "OCC-6")
def test_a_worker_that_freezes_while_it_holds_a_pool_delays_nothing_for_two_seconds(harness: Harness) -> None:
    declare("job")
    plan(harness)
    Pool.objects.get_or_create(name="default", defaults={"size": 50})
    harness.pass_time(seconds=10)
    locked, thawed = Event(), Event()

    def freeze() -> None:
        with suppress(DatabaseError), own_connection(), transaction.atomic():
            free_slots(["default"])
            locked.set()
            thawed.wait(TIMEOUT)
        close_own_connection()

    with ThreadPoolExecutor(1) as pool:
        frozen = pool.submit(closing, freeze)
        assert locked.wait(TIMEOUT)
        began = time.monotonic()
        Session().configure()
        while not harness.tick().fired:
            assert time.monotonic() - began < MAX_SECONDS
        thawed.set()
        frozen.result(TIMEOUT)
    connection.close()
