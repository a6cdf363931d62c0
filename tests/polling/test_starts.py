"""When a registered task starts, fails, waits and starts again, and its rows in the ledger."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from punctual.beat import tick
from punctual.jobs import control
from punctual.jobs.models import Job, Origin
from punctual.occurrences.models import Attempt, Cause, Cursor, Occurrence, TaskRun
from punctual.polling.models import TaskState
from punctual.polling.registrations import Registration
from punctual.polling.scheduler_events import SchedulerEvent
from punctual.recovery.sweeper.reaper import reap
from punctual.recovery.sweeper.sweep import run_once as sweep
from tests.polling.conftest import NOON, Worlds
from tests.polling.world import LEASE, World

START = NOON.replace(second=0)


def at(minutes: int, seconds: float = 0) -> datetime:
    """Minutes after twelve."""
    return START + timedelta(minutes=minutes, seconds=seconds)


def near(instants: list[datetime]) -> list[datetime]:
    """Round off the microseconds that result from adding up pauses."""
    return [instant.replace(microsecond=0) for instant in instants]


def states(rows: Iterable[Occurrence | TaskRun | Attempt]) -> list[str]:
    return [row.state for row in rows]


def occurrences(task: str) -> list[Occurrence]:
    return list(Occurrence.objects.filter(job__name=task).order_by("scheduled_for"))


def attempts(task: str) -> list[Attempt]:
    rows = Attempt.objects.filter(run__occurrence__job__name=task)
    return list(rows.order_by("run__occurrence__scheduled_for", "number"))


# -- first minutes -------------------------------------------------------------------------------


@pytest.mark.req("POL-3")
def test_a_new_task_starts_at_once_only_if_the_current_minute_matches(world: World) -> None:
    world.initialize(world.register("now", "0 12 * * *"), world.register("later", "2 12 * * *"))
    assert world.running == ["now"]
    world.advance(seconds=100)
    assert near(world.starts("later")) == [at(2)]
    assert len(world.starts("now")) == 1


@pytest.mark.req("POL-3")
def test_minutes_before_the_registration_do_not_count(world: World) -> None:
    world.initialize(world.register("a", "59 11 * * *"))
    world.advance(minutes=3)
    assert world.starts("a") == []


@pytest.mark.req("POL-2")
def test_each_matching_minute_starts_the_task_once_and_on_time(world: World) -> None:
    world.initialize(world.register("a", "1,3,4 12 * * *"))
    for _ in range(6):
        world.advance(minutes=1)
        if world.running:
            world.finish("a")
    assert near(world.starts("a")) == [at(1), at(3), at(4)]
    assert [row.scheduled_for for row in occurrences("a")] == [at(1), at(3), at(4)]
    assert states(occurrences("a")) == ["completed"] * 3


@pytest.mark.req("POL-2")
def test_one_start_follows_any_number_of_missed_minutes(world: World) -> None:
    world.initialize(world.register("a", "0,10,20,30,40,50 * * * *"))
    world.finish("a")
    world.stop()
    world.advance(minutes=65)
    world.initialize(world.register("a", "0,10,20,30,40,50 * * * *"))
    world.advance(minutes=4)
    assert near(world.starts("a")) == [NOON, NOON + timedelta(minutes=65)]
    assert [row.scheduled_for for row in occurrences("a")] == [at(0), at(60)]


@pytest.mark.req("POL-2")
def test_minutes_missed_during_a_run_start_the_task_once_afterwards(world: World) -> None:
    world.initialize(world.register("a"))
    world.advance(minutes=5)
    world.finish("a")
    world.advance(seconds=1)
    assert len(world.starts("a")) == 2
    world.finish("a")
    world.advance(seconds=30)
    assert len(world.starts("a")) == 2


# -- retries -------------------------------------------------------------------------------------


@pytest.mark.req("POL-2", "POL-4")
def test_a_failed_task_is_retried_after_its_delay_without_limit(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *", delay=90))
    for _ in range(4):
        world.finish("a", ValueError("no"))
        assert world.running == []
        world.advance(seconds=89)
        assert world.running == []
        world.advance(seconds=2)
        assert world.running == ["a"]
    world.finish("a")
    world.advance(minutes=10)
    assert world.ends("a") == [False] * 4 + [True]
    assert states(attempts("a")) == ["failed"] * 4 + ["success"]
    assert states(occurrences("a")) == ["completed"]
    assert world.signals.count(SchedulerEvent.RETRY_STARTED) == 4


@pytest.mark.req("POL-4")
def test_a_delay_of_zero_retries_at_once(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *", delay=0))
    world.finish("a", ValueError("no"))
    world.advance(seconds=1)
    assert world.running == ["a"]


@pytest.mark.req("POL-2")
def test_a_new_minute_preempts_a_pending_retry(world: World) -> None:
    world.initialize(world.register("a", delay=600))
    world.finish("a", ValueError("no"))
    world.advance(minutes=1)
    assert near(world.starts("a")) == [NOON, at(1)]
    assert world.signals[-2:] == [SchedulerEvent.RETRY_PREEMPTED, SchedulerEvent.RUN_STARTED]
    assert states(occurrences("a")) == ["failed", "running"]
    assert TaskRun.objects.get(occurrence__scheduled_for=at(0)).reason == "superseded by a later minute"
    world.finish("a")
    world.stop()
    world.advance(minutes=11)
    world.assert_properties_hold()


@pytest.mark.req("POL-2")
def test_a_due_retry_and_a_due_minute_make_one_start(world: World) -> None:
    world.initialize(world.register("a", delay=40))
    world.finish("a", ValueError("no"))
    world.advance_to(at(1))
    world.advance(seconds=20)
    assert near(world.starts("a")) == [NOON, at(1)]
    assert world.signals[-1] == SchedulerEvent.RETRY_STARTED
    assert len(attempts("a")) == 2


@pytest.mark.req("POL-4")
def test_the_exception_of_a_callback_is_stored_with_its_attempt(world: World) -> None:
    world.initialize(world.register("a"))
    world.finish("a", ValueError("bad \0 byte and \ud800"))
    (attempt,) = attempts("a")
    assert (attempt.error_type, attempt.error) == ("ValueError", "bad \\x00 byte and \\ud800")
    assert "await call.ending" in attempt.traceback


@pytest.mark.req("POL-4")
def test_a_callback_that_cancels_itself_has_failed(world: World) -> None:
    world.initialize(world.register("a"))
    world.finish("a", asyncio.CancelledError())
    assert world.ends("a") == [False]


# -- side by side --------------------------------------------------------------------------------


@pytest.mark.req("POL-4")
def test_tasks_run_in_parallel_and_fail_independently(world: World) -> None:
    world.initialize(*(world.register(name) for name in "abc"))
    assert world.running == ["a", "b", "c"]
    world.finish("b", RuntimeError("b only"))
    assert world.running == ["a", "c"]
    world.finish("a")
    world.finish("c")
    assert (world.ends("a"), world.ends("b"), world.ends("c")) == ([True], [False], [True])


@pytest.mark.req("POL-4")
def test_a_task_never_has_two_runs_at_a_time(world: World) -> None:
    world.initialize(world.register("a"))
    for _ in range(10):
        world.advance(minutes=1)
        world.initialize(world.register("a"))
    assert len(world.starts("a")) == 1


# -- daylight saving -----------------------------------------------------------------------------


@pytest.mark.req("POL-2")
@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (datetime(2026, 3, 29, tzinfo=UTC), []),  # 02:30 does not exist
        (datetime(2026, 10, 25, tzinfo=UTC), [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]),  # the first 02:30
    ],
)
def test_a_skipped_minute_does_not_start_and_a_repeated_one_starts_once(
    worlds: Worlds, day: datetime, expected: list[datetime]
) -> None:
    world = worlds(day - timedelta(minutes=1), zone="Europe/Berlin")
    world.initialize(Registration("a", "30 2 * * *", nothing, timedelta()))
    world.advance(hours=3)
    assert near(world.starts("a")) == expected


async def nothing() -> None: ...


# -- sleeping ------------------------------------------------------------------------------------


@pytest.mark.req("POL-2")
def test_the_poller_sleeps_until_the_next_due_instant_and_at_most_a_minute(world: World) -> None:
    world.initialize(world.register("soon", "1 12 * * *"), world.register("far", "0 0 1 1 *"))
    world.advance(seconds=1)
    assert world.process.pauses[-1] == pytest.approx(39.9)
    world.advance(hours=1)
    assert max(world.process.pauses) <= 60


# -- crashes -------------------------------------------------------------------------------------


@pytest.mark.req("POL-3")
def test_an_interrupted_task_starts_again_once_after_the_next_initialize(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    world.crash()
    world.advance(seconds=5)
    world.boot()
    world.initialize(world.register("a", "0 12 * * *"))
    assert world.running == [], "the dead process's lease has not run out"
    world.advance(seconds=60)
    assert world.running == ["a"]
    world.finish("a")
    world.advance(minutes=10)
    assert states(attempts("a")) == ["lost", "success"]
    assert attempts("a")[0].lease_until == NOON + LEASE
    assert states(occurrences("a")) == ["completed"]


@pytest.mark.req("POL-3")
def test_an_interrupted_task_starts_again_under_a_changed_registration(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    world.crash()
    world.advance(minutes=5)
    world.boot()
    world.initialize(world.register("a", "0 3 * * *"))
    assert world.running == ["a"]


@pytest.mark.req("POL-3")
def test_a_pending_retry_survives_a_crash(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *", delay=120))
    world.finish("a", ValueError("no"))
    world.crash()
    world.boot()
    world.initialize(world.register("a", "0 12 * * *", delay=120))
    world.advance(seconds=110)
    assert world.running == []
    world.advance(seconds=15)
    assert world.running == ["a"]


# -- beside the platform -------------------------------------------------------------------------


@pytest.mark.req("POL-1")
def test_a_beat_plans_nothing_for_a_polling_job_and_leaves_its_rows_alone(world: World) -> None:
    world.initialize(world.register("a", delay=300), world.register("b"))
    world.finish("a", ValueError("no"))
    for seconds in (31, 61, 400):
        now = NOON + timedelta(seconds=seconds)
        tick.run_once(now, sweeping=False)
    assert Cursor.objects.get(job__name="a").plan_at is None
    assert states(occurrences("a")) == ["running"]
    assert states(TaskRun.objects.order_by("occurrence__job__name")) == ["failed", "running"]
    assert Occurrence.objects.count() == 2


@pytest.mark.req("POL-1")
def test_a_beat_s_sweep_leaves_a_pending_retry_alone(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *", delay=3000))
    world.finish("a", ValueError("no"))
    swept = sweep(NOON + timedelta(minutes=30))
    assert (swept.lost, swept.stale, swept.resent, swept.settle_requests, swept.admitted) == (0, 0, 0, 0, 0)
    assert states(TaskRun.objects.all()) == ["failed"]


@pytest.mark.req("POL-3")
def test_a_run_that_a_beat_declared_lost_starts_again_as_a_recovery(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    world.crash()
    world.advance(minutes=2)
    assert reap(world.now).lost == 1
    world.boot()
    world.initialize(world.register("a", "0 12 * * *"))
    world.finish("a")
    first, second = occurrences("a")
    assert (first.state, second.state) == ("failed", "completed")
    assert (second.cause, second.parent_id) == (Cause.RECOVERY, first.id)


@pytest.mark.req("POL-1")
def test_a_paused_job_is_not_started_until_it_is_resumed(world: World) -> None:
    world.initialize(world.register("a", "1,2,3,4 12 * * *"))
    Job.objects.filter(name="a").update(paused_at=NOON)
    world.advance(minutes=2)
    assert world.running == []
    Job.objects.filter(name="a").update(paused_at=None)
    world.advance(minutes=1)
    assert world.running == ["a"]
    world.recorder.events.clear()  # the properties do not cover a pause by an operator


@pytest.mark.req("POL-1")
def test_the_ledger_shows_a_polling_job_like_any_other(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *", delay=90))
    job = Job.objects.get(name="a")
    assert (job.origin, job.schedule, job.config["timezone"]) == (Origin.POLLING, "posix:0 12 * * *", "UTC")
    assert [task.name for task in job.tasks.all()] == ["a"]
    (occurrence,) = occurrences("a")
    assert (occurrence.scheduled_for, occurrence.started_at, occurrence.state) == (at(0), NOON, "running")
    assert control.get_job("a") == job
    world.finish("a")
    (occurrence,) = occurrences("a")
    assert occurrence.report is not None
    assert occurrence.report["outcome"] == "completed"
    state = TaskState.objects.get(job=job)
    assert (state.last_attempt_at, state.last_success_at) == (NOON, NOON)
    assert state.scheduler_id == world.process.engine.owner.scheduler_id
