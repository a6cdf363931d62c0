from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from jobs.models import Job
from occurrences.models import TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery.retries import release_due
from tests.execution.conftest import NOW
from tests.occurrences.ledger import a_run, a_task, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("EXE-4")]


def waiting(job: Job, *seconds: int) -> list[TaskRun]:
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.RUNNING))
    tasks = [saved(a_task(job, f"step {number}", position=number)) for number in range(len(seconds))]
    return [
        saved(a_run(occurrence, task, RunState.RETRY, available_at=NOW + timedelta(seconds=item)))
        for task, item in zip(tasks, seconds, strict=True)
    ]


def test_a_wait_ends_on_time(job: Job) -> None:
    early, late = waiting(job, 10, 11)
    assert release_due(NOW + timedelta(seconds=9)) == []
    assert release_due(NOW + timedelta(seconds=10)) == [early.id]
    assert release_due(NOW + timedelta(seconds=10)) == [], "released once"
    states = {run.id: run.state for run in TaskRun.objects.all()}
    assert states == {early.id: "scheduled", late.id: "retry"}


def test_the_longest_waiting_come_first_and_no_more_than_asked_for(job: Job) -> None:
    runs = waiting(job, 3, 1, 2)
    assert release_due(NOW + timedelta(minutes=1), limit=2) == [runs[1].id, runs[2].id]


def test_a_released_retry_counts_as_unsent_until_it_is_sent(job: Job) -> None:
    (run,) = waiting(job, 1)
    TaskRun.objects.update(dispatched_at=NOW)
    release_due(NOW + timedelta(seconds=1))
    assert TaskRun.objects.get(id=run.id).dispatched_at is None


def test_nothing_due_only_reads(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        assert release_due(NOW) == []
