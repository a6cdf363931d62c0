"""Live instants are not sacrificed to catch-up, backfill or replay, which start at the job's rate (LIM-5)."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from punctual import Context, Job
from punctual.beat import tick
from punctual.jobs import control
from punctual.jobs.models import Job as Row
from punctual.occurrences.models import Cursor, Occurrence, Pool
from punctual.occurrences.states import CATCH_UP_CAUSES, OccurrenceState, RunState
from punctual.recovery.backfill import backfill
from punctual.recovery.dead_letters import DeadLetterFilter, replay_dead
from punctual.recovery.replay import replay
from punctual.recovery.requester import Requester
from punctual.recovery.time_range import TimeRange
from tests.harness import Harness, states_of
from tests.occurrences.factories import a_run, an_occurrence, saved

ADA = Requester(by="ada", reason="test")
MINUTE = timedelta(minutes=1)


def noop(ctx: Context) -> None: ...


def starts() -> list[Occurrence]:
    """What was started for catch-up, by time."""
    rows = Occurrence.objects.filter(cause__in=CATCH_UP_CAUSES, fired_at__isnull=False)
    return list(rows.order_by("fired_at", "run_at"))


def assert_paced(*, at_most: int, within: timedelta = MINUTE) -> None:
    times = [row.fired_at for row in starts()]
    for number, first in enumerate(times):
        assert first is not None
        count = sum(1 for at in times[number:] if at is not None and at - first < within)
        assert count <= at_most


def assert_no_live_instant_was_skipped(harness: Harness, job: str, *, at_least: int) -> None:
    live = [row for row in harness.occurrences(job) if row.cause == "schedule" and row.state != "pending"]
    assert len(live) >= at_least
    assert {(row.state, row.reason) for row in live} == {("completed", "")}


def work_slowly(harness: Harness, *, minutes: int, step: int = 15) -> None:
    """Every run takes `step` seconds: a worker takes one message in each step."""
    for _ in range(minutes * 60 // step):
        harness.pass_time(seconds=step)
        harness.tick()
        harness.step()


def start(harness: Harness, **options: Any) -> None:
    Job("job", "* * * * *", **{"recovery_rate": "10/m"} | options).task(noop)
    harness.start_at("2026-01-05 12:00:30 UTC")
    harness.tick()


@pytest.mark.req("LIM-5")
@pytest.mark.parametrize("overlap", ["skip", "queue", "queue_latest", "replace"])
def test_a_backfill_of_a_thousand_costs_no_live_instant(harness: Harness, overlap: str) -> None:
    start(harness, overlap=overlap)
    job = control.get_job("job")
    job.__class__.objects.update(created_at=harness.now - 1001 * MINUTE)
    span = TimeRange(harness.now - 1000 * MINUTE, harness.now)
    filled = backfill(job, span, requester=ADA, now=harness.now)
    assert filled.created == 1000
    work_slowly(harness, minutes=10)

    assert_no_live_instant_was_skipped(harness, "job", at_least=9)
    assert_paced(at_most=10)
    assert 25 <= len(starts()) <= 31, "all time that live runs leave: every run takes 15 seconds"
    assert [row.scheduled_for for row in starts()] == sorted(row.scheduled_for for row in starts())
    assert Occurrence.objects.waiting().count() <= 2, "the rest stays pending"


@pytest.mark.req("LIM-5")
def test_a_recovery_of_ten_thousand_costs_no_live_instant(harness: Harness) -> None:
    start(harness, recovery="execute_all")
    harness.pass_time(minutes=10_000)
    for _ in range(15):
        harness.pass_time(seconds=1)
        harness.tick(sweeping=False)
    assert Occurrence.objects.catching_up().count() >= 9_990
    began = harness.now
    work_slowly(harness, minutes=6, step=3)

    live = [row for row in harness.occurrences("job") if row.cause == "schedule" and row.run_at > began]
    assert states_of(live)[:5] == ["completed"] * 5
    assert not Occurrence.objects.filter(state__in=("skipped", "missed")).exists()
    assert_paced(at_most=10)
    assert len(starts()) >= 55, "ten a minute"
    assert [row.scheduled_for for row in starts()] == sorted(row.scheduled_for for row in starts())


@pytest.mark.req("LIM-5")
def test_a_replay_of_five_hundred_dead_letters_costs_no_live_instant(harness: Harness) -> None:
    start(harness)
    job = Row.objects.get(name="job")
    task = job.tasks.get()
    for number in range(500):
        at = harness.now - (number + 2) * MINUTE
        failed = saved(an_occurrence(job, at, OccurrenceState.FAILED, finalized_at=at))
        saved(a_run(failed, task, RunState.DLQ))
    replayed = replay_dead(DeadLetterFilter(), requester=ADA, now=harness.now)
    assert replayed.count == 500
    began = harness.now
    work_slowly(harness, minutes=5, step=3)

    live = [row for row in harness.occurrences("job") if row.cause == "schedule" and row.run_at > began]
    assert states_of(live)[:4] == ["completed"] * 4
    assert not Occurrence.objects.filter(state__in=("skipped", "missed")).exists()
    assert_paced(at_most=10)
    assert len(starts()) >= 45


@pytest.mark.req("LIM-5")
@pytest.mark.req("OCC-4")
def test_the_schedule_does_not_replace_a_running_replay(harness: Harness) -> None:
    start(harness, overlap="replace")
    harness.live(step=30, minutes=1)
    done = next(row.id for row in harness.occurrences("job") if row.state == "completed")
    replay([done], requester=ADA, now=harness.now)
    harness.pass_time(seconds=1)
    harness.tick()
    harness.crash_worker()  # the replay runs, and goes on
    for _ in range(2):
        harness.pass_time(seconds=12)
        harness.tick(sweeping=False)
    harness.pass_time(seconds=5)
    harness.tick()
    again = Occurrence.objects.get(cause="replay")
    assert again.state == "running"
    waiting = Occurrence.objects.waiting().get()
    assert (waiting.cause, waiting.reason) == ("schedule", "catch-up")


@pytest.mark.req("LIM-5")
@pytest.mark.parametrize(("rate", "minutes", "count"), [("10/m", 2, 20), ("30/h", 4, 2), (None, 1, 40)])
def test_catch_up_starts_at_the_stated_rate(
    harness: Harness, rate: str | None, minutes: int, count: int
) -> None:
    Job("job", "*/10 * * * * *", overlap="allow", recovery="execute_all", recovery_rate=rate).task(noop)
    harness.start_at("2026-01-05 12:00:30 UTC")
    harness.tick()
    harness.pass_time(minutes=10)
    harness.tick()
    harness.live(step=2, minutes=minutes)
    assert count - 1 <= len(starts())
    if rate is not None:
        assert len(starts()) <= count + 1


@pytest.mark.req("LIM-5")
def test_beats_that_were_down_do_not_start_everything_at_once_afterwards(harness: Harness) -> None:
    Job("job", "* * * * *", overlap="allow", recovery="execute_all", recovery_rate="10/m").task(noop)
    harness.start_at("2026-01-05 12:00:30 UTC")
    harness.tick()
    harness.pass_time(hours=1)
    harness.tick()
    harness.pass_time(minutes=30)
    for _ in range(3):
        harness.tick()
        harness.work()
    assert len(starts()) == 2, "one before the second outage, one after it"


@pytest.mark.req("LIM-5")
def test_a_line_that_is_empty_costs_no_more_ticks(harness: Harness) -> None:
    start(harness)
    harness.live(step=30, minutes=1)
    done = next(row.id for row in harness.occurrences("job") if row.state == "completed")
    replay([done], requester=ADA, now=harness.now)
    assert Cursor.objects.get().catch_up_at == harness.now
    harness.live(step=2, seconds=10)
    assert Occurrence.objects.get(cause="replay").state == "completed"
    assert Cursor.objects.get().catch_up_at is None
    assert tick.sleep_for(harness.now) > timedelta()


@pytest.mark.req("LIM-5")
def test_a_pool_that_is_full_delays_catch_up_and_loses_none(harness: Harness) -> None:
    Pool.objects.create(name="small", size=0)
    start(harness, pool="small", recovery="execute_all", recovery_rate="60/m")
    harness.pass_time(minutes=10)
    for _ in range(5):
        harness.pass_time(seconds=2)
        harness.tick()
    assert Counter(Occurrence.objects.waiting().values_list("cause", flat=True))["recovery"] == 2
    Pool.objects.update(size=5)
    harness.live(step=2, minutes=1)
    recovered = Occurrence.objects.filter(cause="recovery")
    assert set(recovered.values_list("state", flat=True)) == {"completed"}
    assert recovered.count() >= 8
