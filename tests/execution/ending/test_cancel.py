"""An operator ends an occurrence or a single run, whatever state it is in."""

from datetime import timedelta

import pytest

from punctual.execution.ending.cancel import cancel, cancel_now, cancel_runs
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from tests.execution.conftest import NOW
from tests.harness import Harness
from tests.occurrences.factories import a_run, an_occurrence, saved, start_occurrence

pytestmark = [pytest.mark.django_db, pytest.mark.req("EXE-10")]

LATER = NOW + timedelta(seconds=5)


@pytest.mark.parametrize(
    "state", [OccurrenceState.PENDING, OccurrenceState.QUEUED, OccurrenceState.DISPATCHED]
)
def test_a_canceled_run_that_has_not_started_never_starts(
    job: Job, task: Task, state: OccurrenceState
) -> None:
    occurrence = saved(an_occurrence(job, NOW, state))
    if state is OccurrenceState.DISPATCHED:
        saved(a_run(occurrence, task))
    assert cancel([occurrence.id], reason="operator", now=LATER).finished == (occurrence.id,)
    row = Occurrence.objects.get()
    assert (row.state, row.reason, row.finished_at) == ("canceled", "operator", LATER)
    assert row.report is not None
    assert row.report["outcome"] == "canceled"
    assert set(TaskRun.objects.values_list("state", flat=True)) <= {"canceled"}


def test_a_canceled_running_run_loses_its_claim_and_its_attempt_ends(job: Job, task: Task) -> None:
    occurrence, (run,) = start_occurrence(job, NOW, task)
    cancel([occurrence.id], reason="operator", now=LATER)
    row = TaskRun.objects.get(id=run.id)
    assert (row.state, row.claim_token, row.reason) == ("canceled", None, "operator")
    assert Attempt.objects.get().state == "canceled"


def test_a_finished_occurrence_keeps_its_outcome(job: Job, task: Task) -> None:
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.COMPLETED))
    saved(a_run(occurrence, task, RunState.SUCCESS))
    assert cancel([occurrence.id], reason="operator", now=LATER).finished == ()
    assert Occurrence.objects.get().state == "completed"


def test_after_a_canceled_step_the_sequence_goes_on(
    job: Job, task: Task, second: Task, queue: Harness
) -> None:
    occurrence, (run,) = start_occurrence(job, NOW, task)
    following = saved(a_run(occurrence, second, available_at=None))
    settled = cancel_runs([run.id], reason="operator", now=LATER)
    assert (settled.released, settled.finished) == ((following.id,), ())
    assert TaskRun.objects.get(id=run.id).state == "canceled"
    assert Occurrence.objects.get().state == "running"


def test_an_occurrence_whose_last_step_is_canceled_is_over(
    job: Job, task: Task, second: Task, queue: Harness
) -> None:
    occurrence, (run,) = start_occurrence(job, NOW, task)
    following = saved(a_run(occurrence, second, available_at=None))
    assert cancel_now(runs=[run.id], reason="operator", now=LATER) == 0
    assert queue.take() is not None, "the next step was sent"
    assert cancel_now(runs=[following.id], reason="operator", now=LATER) == 1
    assert Occurrence.objects.get(id=occurrence.id).state == "canceled"
