"""Two instants of one job close together, a paused job, a stopped one, an edited one."""

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from punctual import Context, Job, scheduled
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import report
from punctual.execution.worker.claim import Claim, report_of_claim
from punctual.execution.worker.work import follow_up
from punctual.jobs import control
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.models import Job as JobRow
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.states import OccurrenceState
from tests.harness import Harness


def noop(ctx: Context) -> None: ...


@pytest.mark.req("OCC-4")
@pytest.mark.parametrize(
    ("overlap", "while_running", "after"),
    [
        ("skip", ["running", "skipped"], ["completed", "skipped"]),
        ("queue", ["running", "queued"], ["completed", "completed"]),
        ("allow", ["running", "dispatched"], ["completed", "completed"]),
    ],
)
def test_overlap_policies(
    harness: Harness,
    caplog: pytest.LogCaptureFixture,
    overlap: str,
    while_running: list[str],
    after: list[str],
) -> None:
    caplog.set_level(logging.INFO)
    Job("job", "*/10 * * * * *", overlap=overlap).task(noop)
    harness.sync()
    harness.pass_time(seconds=10)
    harness.tick()
    claims = harness.crash_worker()
    harness.pass_time(seconds=10)
    harness.tick()
    assert harness.states("job")[:2] == while_running

    report_success(harness, claims)
    harness.work()
    assert harness.states("job")[:2] == after
    if overlap == "skip":
        assert harness.occurrences("job")[1].reason == "overlap"
    assert caplog.text.count("occurrence.skipped job=job") == after.count("skipped")


@pytest.mark.req("OCC-4")
def test_the_database_refuses_a_second_active_occurrence_of_an_exclusive_job(
    harness: Harness,
) -> None:
    Job("job", "*/10 * * * * *").task(noop)
    harness.sync()
    harness.pass_time(seconds=10)
    harness.tick()
    pending = Occurrence.objects.filter(state=OccurrenceState.PENDING)
    refused = pytest.raises(IntegrityError, match=r"one_active_occurrence_per_exclusive_job|UNIQUE")
    with refused, transaction.atomic():
        pending.update(state=OccurrenceState.DISPATCHED, fired_at=harness.now)


@pytest.mark.req("JOB-8")
def test_instants_of_a_paused_job_are_recorded_as_skipped(harness: Harness) -> None:
    Job("job", "*/10 * * * * *").task(noop)
    harness.sync()
    assert harness.pause("job")
    assert not harness.pause("job"), "the job was paused already"
    harness.live(seconds=20)
    assert {(row.state, row.reason) for row in harness.occurrences("job") if row.finished_at} == {
        ("skipped", "paused")
    }
    assert harness.resume("job")
    harness.live(seconds=10)
    assert harness.finished("job") == ["skipped", "skipped", "completed"]


@pytest.mark.req("OCC-8")
def test_an_edit_by_raw_sql_is_honoured_at_the_next_tick(harness: Harness) -> None:
    Job("job", "0 9 1 1 *").task(noop)
    harness.sync()
    harness.tick()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE punctual_job SET schedule = '*/10 * * * * *', updated_at = %s", [harness.now])
    JobRow.objects.update(updated_at=harness.now)
    harness.pass_time(seconds=10)
    harness.tick()
    harness.work()

    assert harness.states("job")[0] == "completed"
    assert datetime(2027, 1, 1, 9, tzinfo=UTC) not in [
        row.scheduled_for for row in harness.occurrences("job")
    ], "pending rows of the old schedule are deleted"


@pytest.mark.req("OCC-8")
def test_raw_sql_that_breaks_a_schedule_stops_that_job_only(harness: Harness) -> None:
    Job("broken", "*/10 * * * * *").task(noop)
    Job("healthy", "*/10 * * * * *").task(noop)
    harness.sync()
    JobRow.objects.filter(name="broken").update(schedule="nonsense", updated_at=harness.now)
    harness.live(seconds=20)

    assert harness.finished("healthy") == ["completed", "completed"]
    assert harness.occurrences("broken") == []
    assert "E010" in JobRow.objects.get(name="broken").cursor.problem


def test_a_stopped_job_owes_nothing_for_the_time_it_was_stopped(harness: Harness) -> None:
    Job("job", "*/10 * * * * *").task(noop)
    harness.sync()
    harness.live(seconds=10)
    JobRow.objects.update(enabled=False, updated_at=harness.now)
    harness.live(seconds=60)
    JobRow.objects.update(enabled=True, updated_at=harness.now)
    harness.live(seconds=10)

    assert harness.finished("job") == ["completed", "completed"]


@pytest.mark.req("OCC-9")
def test_a_manual_run_does_not_change_the_phase_of_the_schedule(harness: Harness) -> None:
    seen = []

    @scheduled("* * * * *")
    def job(ctx: Context) -> None:
        seen.append((ctx.scheduled_for, dict(ctx.args)))

    harness.sync()
    harness.tick()
    planned = [row.scheduled_for for row in harness.occurrences("job")]
    connected_ledger().trigger(control.get_job("job"), args={"day": "monday"}, overrides={}, now=harness.now)
    harness.tick()
    harness.work()

    assert seen == [(harness.now, {"day": "monday"})]
    assert [row.scheduled_for for row in harness.occurrences("job") if row.cause == "schedule"] == planned


@pytest.mark.req("OCC-9")
def test_two_triggers_in_one_microsecond_are_two_runs(harness: Harness) -> None:
    Job("job", "0 9 1 1 *", overlap="allow").task(noop)
    harness.sync()
    ids = {
        connected_ledger().trigger(control.get_job("job"), args={}, overrides={}, now=harness.now)
        for _ in range(3)
    }
    harness.pass_time(seconds=1)
    harness.tick()
    harness.work()

    assert len(ids) == 3
    assert harness.finished("job") == ["completed"] * 3


def report_success(harness: Harness, claims: tuple[Claim, ...]) -> None:
    (item,) = claims
    done = report_of_claim(item, Result(Ending.SUCCESS))
    follow_up(report([done], now=harness.now), clock=harness.clock)


@pytest.mark.req("OCC-9")
@pytest.mark.parametrize("schedule", ["@every 7s", "*/5 * * * * *"])
def test_manual_runs_skips_and_moves_do_not_move_any_instant_of_the_schedule(
    harness: Harness, schedule: str
) -> None:
    Job("job", schedule, overlap="allow").task(noop)
    harness.sync()
    start = harness.now
    harness.live(seconds=8)
    connected_ledger().trigger(control.get_job("job"), args={}, now=harness.now)
    harness.live(seconds=8)
    assert connected_ledger().skip_next(control.get_job("job"), now=harness.now) is not None
    harness.live(seconds=11)
    moved = Occurrence.objects.filter(state=OccurrenceState.PENDING).order_by("run_at")[0]
    connected_ledger().reschedule(moved.id, run_at=harness.now + timedelta(seconds=20), now=harness.now)
    harness.live(seconds=34)

    rows = Occurrence.objects.filter(scheduled_for__gt=start, scheduled_for__lte=harness.now)
    planned = rows.exclude(cause=Cause.MANUAL).order_by("scheduled_for")
    owed = schedule_of(control.get_job("job")).between(start, harness.now)
    assert list(planned.values_list("scheduled_for", flat=True)) == list(owed)
    assert Counter(planned.values_list("state", flat=True)) == {
        "completed": planned.count() - 1,
        "skipped": 1,
    }
    assert rows.filter(cause=Cause.MANUAL, state="completed").count() == 1
    assert [row.id for row in planned if row.run_at != row.scheduled_for] == [moved.id]
