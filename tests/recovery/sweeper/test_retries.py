from datetime import timedelta

import pytest

from punctual.jobs.models import Job
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.sweeper.retries import release_due_retries
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_run, a_task, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("EXE-4")]


def waiting_retries(job: Job, *seconds: int) -> list[TaskRun]:
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.RUNNING))
    tasks = [saved(a_task(job, f"step {number}", position=number)) for number in range(len(seconds))]
    return [
        saved(a_run(occurrence, task, RunState.RETRY, available_at=NOW + timedelta(seconds=item)))
        for task, item in zip(tasks, seconds, strict=True)
    ]


def test_a_retry_is_released_when_its_delay_is_over(job: Job) -> None:
    early, late = waiting_retries(job, 10, 11)
    assert release_due_retries(NOW + timedelta(seconds=9)) == []
    assert release_due_retries(NOW + timedelta(seconds=10)) == [early.id]
    assert release_due_retries(NOW + timedelta(seconds=10)) == [], "released once"
    states = {run.id: run.state for run in TaskRun.objects.all()}
    assert states == {early.id: "scheduled", late.id: "retry"}


def test_the_earliest_retries_are_released_first_up_to_the_limit(job: Job) -> None:
    runs = waiting_retries(job, 3, 1, 2)
    assert release_due_retries(NOW + timedelta(minutes=1), limit=2) == [runs[1].id, runs[2].id]


def test_a_released_retry_counts_as_unsent_until_it_is_sent(job: Job) -> None:
    (run,) = waiting_retries(job, 1)
    TaskRun.objects.update(dispatched_at=NOW)
    release_due_retries(NOW + timedelta(seconds=1))
    assert TaskRun.objects.get(id=run.id).dispatched_at is None
