"""`delay:5m`: the next run follows the end of the previous one, and no backlog forms."""

from datetime import timedelta

import pytest

from punctual import Context, Job
from punctual.jobs.models import Job as JobRow
from punctual.occurrences.models import Occurrence
from punctual.occurrences.operator import trigger
from tests.harness import Harness

pytestmark = [pytest.mark.django_db, pytest.mark.req("TSK-7")]

MINUTE = timedelta(minutes=1)


def declare(harness: Harness, schedule: str = "delay:5m", minutes: float = 0, **config: object) -> Job:
    job = Job("rests", schedule, **config)  # type: ignore[arg-type]

    @job.task
    def step(ctx: Context) -> None:
        harness.pass_time(minutes=minutes)

    harness.sync()
    harness.tick()
    return job


def pending(harness: Harness) -> list[Occurrence]:
    return [row for row in harness.occurrences("rests") if row.state == "pending"]


def test_the_first_run_is_one_delay_after_the_job_s_creation(harness: Harness) -> None:
    created = harness.now
    declare(harness)
    (first,) = pending(harness)
    assert first.scheduled_for == first.run_at == created + 5 * MINUTE


def test_the_next_run_counts_from_the_end_of_the_previous_one(harness: Harness) -> None:
    declare(harness, minutes=7)
    harness.pass_time(minutes=5)
    harness.tick()
    assert pending(harness) == [], "while one is open, none is planned"
    harness.work()
    ended = harness.now
    harness.live(seconds=11)
    (following,) = pending(harness)
    assert following.run_at == ended + 5 * MINUTE


@pytest.mark.req("JOB-6")
def test_a_graceful_edit_keeps_the_planned_run_and_counts_from_its_end(harness: Harness) -> None:
    job = declare(harness, minutes=1)
    (kept,) = pending(harness)
    harness.pass_time(minutes=1)
    job.schedule, job.config = "delay:30m", {"update_policy": "graceful"}
    harness.sync()
    harness.tick()
    assert [row.id for row in pending(harness)] == [kept.id]
    harness.now = kept.scheduled_for
    harness.live(minutes=2)
    (following,) = pending(harness)
    kept.refresh_from_db()
    assert (kept.state, kept.job_version, following.job_version) == ("completed", 1, 2)
    assert kept.finished_at is not None
    assert following.run_at == kept.finished_at + 30 * MINUTE


@pytest.mark.req("JOB-6")
def test_an_immediate_edit_replaces_the_planned_run(harness: Harness) -> None:
    job = declare(harness)
    (old,) = pending(harness)
    job.schedule = "delay:30m"
    harness.sync()
    harness.tick()
    (new,) = pending(harness)
    assert (new.job_version, new.run_at - old.run_at) == (2, 25 * MINUTE)


def test_after_downtime_one_run_is_owed_and_not_a_hundred(harness: Harness) -> None:
    declare(harness)
    harness.pass_time(minutes=1000)
    harness.live(seconds=20)
    assert harness.states("rests") == ["completed", "pending"]
    (following,) = pending(harness)
    assert following.run_at > harness.now + 4 * MINUTE


def test_a_skipped_or_failed_occurrence_is_followed_like_any_other(harness: Harness) -> None:
    declare(harness)
    JobRow.objects.update(paused_at=harness.now)
    harness.pass_time(minutes=5)
    harness.live(seconds=15)
    skipped, following = harness.occurrences("rests")
    assert (skipped.state, following.state) == ("skipped", "pending")
    assert skipped.finished_at is not None
    assert following.run_at == skipped.finished_at + 5 * MINUTE


def test_manual_runs_do_not_move_the_next_instant(harness: Harness) -> None:
    declare(harness)
    (planned,) = pending(harness)
    trigger(JobRow.objects.get(), args={}, now=harness.now)
    harness.live(minutes=1)
    assert harness.states("rests") == ["completed", "pending"]
    assert [row.id for row in pending(harness)] == [planned.id]


def test_another_delay_counts_from_the_same_end(harness: Harness) -> None:
    declare(harness)
    harness.pass_time(minutes=5)
    harness.live(seconds=15)
    (done, before) = harness.occurrences("rests")
    assert done.finished_at is not None
    assert before.run_at == done.finished_at + 5 * MINUTE
    JobRow.objects.update(schedule="delay:20m", updated_at=harness.now)
    harness.live(seconds=2)
    (after,) = pending(harness)
    assert after.run_at >= done.finished_at + 20 * MINUTE
    assert after.run_at <= harness.now + 20 * MINUTE
