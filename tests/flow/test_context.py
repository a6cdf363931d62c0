"""What a running task can read from its context and report through it (EXE-6)."""

from datetime import timedelta

import pytest

from punctual import Context, Job, Retry, scheduled
from punctual.jobs.context import PreviousRun
from punctual.jobs.models import Job as JobRow
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from tests.harness import Harness

pytestmark = [pytest.mark.req("EXE-6")]


def test_a_task_can_read_its_previous_run(harness: Harness) -> None:
    seen: list[PreviousRun | None] = []

    @scheduled("* * * * *")
    def minutely(ctx: Context) -> None:
        seen.append(ctx.previous_run)
        assert ctx.previous_run is seen[-1], "read once"

    harness.sync()
    harness.live(seconds=95)
    first, second = seen
    assert first is None
    assert second is not None
    earlier = harness.runs("minutely")[0]
    assert (second.run_id, second.state) == (earlier.display_id, "success")
    assert second.finished_at == earlier.finished_at
    assert second.scheduled_for == harness.occurrences("minutely")[0].scheduled_for


def test_reported_progress_is_stored_when_the_run_ends(harness: Harness) -> None:
    answers = []

    @scheduled("* * * * *")
    def minutely(ctx: Context) -> None:
        for done in range(3):
            answers.append(ctx.heartbeat({"done": done}))  # noqa: PERF401 - one after the other is the point
        ctx.heartbeat()

    harness.sync()
    harness.live(seconds=35)
    assert answers == [True] * 3
    assert TaskRun.objects.get(state="success").progress == {"done": 2}


@pytest.mark.req("EXE-6")
def test_progress_does_not_hide_the_error_of_a_broken_transaction(harness: Harness) -> None:
    @scheduled("* * * * *", transactional=True, retry=Retry(0))
    def minutely(ctx: Context) -> None:
        ctx.heartbeat({"done": 1})
        job = JobRow.objects.get()
        JobRow.objects.create(id=job.id, name=job.name, created_at=job.created_at, updated_at=job.created_at)

    harness.sync()
    harness.live(seconds=35)
    assert Attempt.objects.get().error_type == "IntegrityError"


def test_log_lines_are_stored_with_the_attempt(harness: Harness) -> None:
    @scheduled("* * * * *")
    def minutely(ctx: Context) -> None:
        ctx.logger.warning("for %s", ctx.scheduled_for.isoformat())

    harness.sync()
    harness.live(seconds=35)
    assert Attempt.objects.get().log.endswith("WARNING for 2026-01-05T12:01:00+00:00")


def test_a_compressed_run_can_read_which_instants_it_covers(harness: Harness) -> None:
    seen: list[Context] = []
    job = Job("minutely", "* * * * *", recovery="compressed")

    @job.task
    def step(ctx: Context) -> None:
        seen.append(ctx)

    harness.sync()
    harness.tick()
    harness.pass_time(minutes=5)
    harness.live(seconds=5)
    live, told = seen
    assert (live.cause, told.cause) == ("schedule", "recovery"), "the instant due now goes first"
    assert len(told.covers) >= 4
    assert sorted(told.covers) == list(told.covers)
    assert told.covers[1] - told.covers[0] == timedelta(minutes=1)
    assert live.scheduled_for not in told.covers
    assert Occurrence.objects.filter(state="completed").count() == 2
