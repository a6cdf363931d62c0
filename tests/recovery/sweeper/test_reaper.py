from datetime import timedelta

import pytest

from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.sweeper.reaper import Reaped, reap
from tests.execution.conftest import NOW
from tests.occurrences.factories import (
    LEASE,
    a_job,
    a_run,
    a_task,
    an_occurrence,
    columns_of,
    saved,
    start_occurrence,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("REC-3")]

EXPIRED = NOW + LEASE


def test_an_expired_attempt_is_lost_with_its_lease_recorded_and_the_run_is_retried(
    job: Job, task: Task
) -> None:
    _, (run,) = start_occurrence(job, NOW, task, retry={"max_retries": 1, "interval": "7s", "jitter": "0s"})
    assert reap(EXPIRED).lost == 1

    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.finished_at) == ("lost", EXPIRED)
    assert (attempt.lease_until, attempt.heartbeat_at) == (NOW + LEASE, NOW)
    assert attempt.error_type == "WorkerLost"
    assert "worker/1 stopped responding" in attempt.error
    run.refresh_from_db()
    assert (run.state, run.available_at) == ("retry", EXPIRED + timedelta(seconds=7))
    assert reap(EXPIRED) == Reaped(), "reaped only once"


def test_a_lease_is_valid_until_the_moment_it_expires(job: Job, task: Task) -> None:
    start_occurrence(job, NOW, task)
    assert reap(EXPIRED - timedelta(microseconds=1)) == Reaped()
    assert reap(EXPIRED).lost == 1


@pytest.mark.req("TSK-5")
def test_a_lost_run_without_retries_left_becomes_a_dead_letter(job: Job, task: Task) -> None:
    occurrence, (run,) = start_occurrence(job, NOW, task, retry={"max_retries": 0})
    reaped = reap(EXPIRED)
    run.refresh_from_db()
    assert (run.state, run.reason) == ("dlq", "lost after 1 attempts")
    assert columns_of(Occurrence, occurrence.id)["state"] == "failed"
    assert reaped.settled.finished == (occurrence.id,)


@pytest.mark.req("OCC-6")
def test_the_slot_of_a_lost_run_goes_to_the_next_waiting_occurrence(job: Job, task: Task) -> None:
    start_occurrence(job, NOW, task, retry={"max_retries": 0})
    waiting = saved(an_occurrence(job, NOW + timedelta(seconds=1), OccurrenceState.QUEUED))
    released = reap(EXPIRED).settled.released
    assert [TaskRun.objects.get(id=id_).occurrence_id for id_ in released] == [waiting.id]


def test_a_renewed_lease_is_not_reaped(db: None) -> None:
    runs = []
    for name in ("silent", "alive"):
        job = saved(a_job(name, NOW))
        runs += start_occurrence(job, NOW, saved(a_task(job)))[1]
    TaskRun.objects.filter(id=runs[1].id).update(lease_until=EXPIRED + LEASE)
    assert reap(EXPIRED).lost == 1
    assert columns_of(TaskRun, runs[1].id)["state"] == "running"


def test_the_oldest_leases_are_reaped_first_up_to_the_limit(db: None) -> None:
    for number in range(3):
        job = saved(a_job(f"job-{number}", NOW))
        _, (run,) = start_occurrence(job, NOW, saved(a_task(job)))
        TaskRun.objects.filter(id=run.id).update(lease_until=NOW + timedelta(seconds=3 - number))
    assert reap(EXPIRED, limit=1).lost == 1
    assert Attempt.objects.get(state="lost").run.occurrence.job.name == "job-2"


@pytest.mark.req("TSK-3")
def test_a_bundled_run_that_may_have_begun_is_recorded_as_lost_and_costs_no_retry(
    job: Job, task: Task
) -> None:
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.RUNNING))
    run = saved(a_run(occurrence, task, RunState.CLAIMED, heartbeat_at=NOW))
    assert reap(EXPIRED - timedelta(microseconds=1)) == Reaped()
    reaped = reap(EXPIRED)
    assert (reaped.lost, reaped.settled.released) == (1, (run.id,))
    run.refresh_from_db()
    assert (run.state, run.attempts_made, run.snoozes, run.claim_token) == ("scheduled", 1, 1, None)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.started_at, attempt.heartbeat_at) == ("lost", NOW, NOW)
    assert "may have begun" in attempt.error
    assert reap(EXPIRED) == Reaped()
