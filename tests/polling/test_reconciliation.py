"""Registrations become new, preserved, overridden and removed tasks; all of them or none."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from punctual.jobs.ids import job_id
from punctual.jobs.models import Job, JobVersion, Origin
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.polling import errors
from punctual.polling.models import Roster, TaskState
from punctual.schedules import CronCalculationError
from tests.polling.conftest import NOON, Worlds
from tests.polling.world import World

pytestmark = pytest.mark.req("POL-1")


def state(name: str) -> TaskState:
    return TaskState.objects.get(job__name=name)


def stored() -> dict[str, Any]:
    """Everything an `initialize` may change."""
    jobs = Job.objects.order_by("name").values("name", "schedule", "config", "version", "removed_at")
    states = TaskState.objects.order_by("job_id").values()
    runs = TaskRun.objects.order_by("id").values("state", "available_at", "reason")
    return {
        "jobs": list(jobs),
        "states": list(states),
        "runs": list(runs),
        "roster": list(Roster.objects.values()),
        "occurrences": list(Occurrence.objects.order_by("id").values("state", "finished_at")),
    }


def test_the_same_registrations_again_change_only_the_owning_scheduler(world: World) -> None:
    world.initialize(world.register("a"), world.register("b", "0 3 * * *"))
    world.finish("a")
    before, version = state("a"), JobVersion.objects.count()
    world.advance(seconds=10)
    world.stop()
    world.boot()
    world.initialize(world.register("a"), world.register("b", "0 3 * * *"))
    after = state("a")
    assert (after.last_attempt_at, after.last_success_at) == (before.last_attempt_at, before.last_success_at)
    assert (after.counts_from, after.revision) == (before.counts_from, before.revision)
    assert after.scheduler_id != before.scheduler_id
    assert JobVersion.objects.count() == version
    assert world.running == []


def test_a_changed_task_is_reset_and_starts_in_its_current_minute_only(world: World) -> None:
    world.initialize(world.register("a"))
    world.finish("a")
    world.initialize(world.register("a", delay=61))
    world.advance(seconds=1)
    assert world.running == ["a"], "the current minute matches, and the timestamps were reset"
    world.finish("a")
    world.initialize(world.register("a", "59 11 * * *", delay=61))
    world.advance(minutes=2)
    assert world.running == []
    assert (state("a").last_attempt_at, state("a").last_success_at) == (None, None)
    assert Occurrence.objects.filter(state="completed").count() == 2
    assert Job.objects.get(name="a").version == 3


def test_a_changed_task_drops_its_pending_retry(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *", delay=120))
    world.finish("a", ValueError("no"))
    world.advance(seconds=50)
    world.initialize(world.register("a", "0 12 * * *", delay=130))
    world.advance(minutes=10)
    assert len(world.starts("a")) == 1
    assert TaskRun.objects.get().reason == "registered anew"
    assert Occurrence.objects.get().state == "failed"


def test_a_changed_task_that_is_running_goes_on_without_overlap(world: World) -> None:
    world.initialize(world.register("a"))
    world.initialize(world.register("a", "0,5 12 * * *", delay=5))
    world.advance(minutes=1)
    assert world.running == ["a"]
    assert len(world.starts("a")) == 1
    world.finish("a")
    world.advance(seconds=1)
    assert len(world.starts("a")) == 2, "the minute it was registered anew in is still owed"


def test_a_failure_after_the_change_waits_for_the_new_delay(world: World) -> None:
    world.initialize(world.register("a", "0 12 * * *"))
    world.initialize(world.register("a", "5 12 * * *", delay=5))
    world.finish("a", ValueError("old code, new delay"))
    assert state("a").pending_retry_until == world.now + timedelta(seconds=5)


def test_a_task_that_is_no_longer_registered_is_removed_and_its_history_stays(world: World) -> None:
    world.initialize(world.register("a", delay=300), world.register("b", "0 3 * * *"))
    world.finish("a", ValueError("no"))
    world.initialize(world.register("b", "0 3 * * *"))
    world.advance(minutes=10)
    assert len(world.starts("a")) == 1
    assert Job.objects.get(name="a").removed_at == NOON
    assert Occurrence.objects.get(job__name="a").state == "failed"
    assert TaskRun.objects.get(occurrence__job__name="a").reason == "no longer registered"
    last = JobVersion.objects.filter(job__name="a").latest("number")
    assert (last.number, last.after["enabled"], last.reason) == (2, False, "no longer registered")


def test_a_removed_task_that_runs_may_finish_and_is_not_retried(world: World) -> None:
    world.initialize(world.register("a", delay=1), world.register("b", "0 3 * * *"))
    world.initialize(world.register("b", "0 3 * * *"))
    world.finish("a", ValueError("no"))
    world.advance(minutes=2)
    assert (world.ends("a"), world.running) == ([False], [])
    assert Occurrence.objects.get(job__name="a").state == "failed"


def test_a_removed_task_that_is_registered_again_is_new(world: World) -> None:
    world.initialize(world.register("a", "0 * * * *"))
    world.finish("a")
    world.initialize()
    world.advance(minutes=65)
    world.initialize(world.register("a", "0 * * * *"))
    assert world.running == [], "the minute it missed was not its own"
    assert Job.objects.get(name="a").removed_at is None


def test_a_removed_task_that_is_still_running_does_not_overlap_when_registered_again(world: World) -> None:
    world.initialize(world.register("a"))
    world.initialize()
    world.initialize(world.register("a"))
    world.advance(minutes=3)
    assert len(world.starts("a")) == 1


@pytest.mark.parametrize("origin", [Origin.CODE, Origin.ADMIN, Origin.FILE])
def test_a_failed_override_restores_the_previous_state(world: World, origin: Origin) -> None:
    world.initialize(world.register("a", delay=300), world.register("gone", "0 3 * * *"))
    world.finish("a", ValueError("no"))
    Job.objects.create(
        id=job_id("taken"), name="taken", schedule="@daily", origin=origin, created_at=NOON, updated_at=NOON
    )
    before = stored()
    with pytest.raises(errors.ScheduleTaskError) as caught:
        world.initialize(
            world.register("a", "1 1 1 1 *"), world.register("new"), world.register("taken", "0 5 * * *")
        )
    assert stored() == before
    cause = caught.value.details["cause"]
    assert caught.value.details == {"name": "taken", "cronExpression": "0 5 * * *", "cause": cause}
    assert str(caught.value) == f"Failed to schedule task 'taken': {cause}"
    assert caught.value.__cause__ is cause


def test_a_pattern_without_a_next_minute_cannot_be_scheduled(worlds: Worlds) -> None:
    world = worlds(datetime(9999, 6, 1, tzinfo=UTC))
    with pytest.raises(errors.ScheduleTaskError) as caught:
        world.initialize(world.register("a", "0 0 29 2 *"))
    assert isinstance(caught.value.details["cause"], CronCalculationError)
    assert not Job.objects.exists()


def test_every_stored_task_carries_the_scheduler_s_identifier(world: World) -> None:
    world.initialize(world.register("a"), world.register("b"))
    mine = world.process.engine.owner.scheduler_id
    assert set(TaskState.objects.values_list("scheduler_id", flat=True)) == {mine}
    assert Roster.objects.get().scheduler_id == mine
    world.initialize(world.register("a"))
    assert world.process.engine.owner.scheduler_id == mine


def test_a_scheduler_whose_registrations_were_superseded_starts_nothing_under_the_old_rule(
    world: World,
) -> None:
    world.initialize(world.register("a", "0 3 * * *"), world.register("b", "1 12 * * *"))
    world.boot()
    world.initialize(world.register("a", "0 3 * * *"), world.register("b", "2 12 * * *"))
    world.advance(minutes=1)
    assert world.running == []
    world.advance(minutes=1)
    assert world.running == ["b"]
    assert TaskRun.objects.get().claimed_by == "host/2"


def test_a_mismatch_of_stored_and_registered_tasks_names_both() -> None:
    error = errors.TaskListMismatchError(["a"], ["a", "b"])
    assert error.details == {"expected": ["a"], "actual": ["a", "b"]}
