from datetime import timedelta

import pytest

from punctual.execution.ending.settle import Settled
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.sweeper.timeouts import end_overdue
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_run, an_occurrence, saved, start_occurrence

pytestmark = [pytest.mark.django_db, pytest.mark.req("REC-3"), pytest.mark.req("EXE-5")]

DEADLINE = NOW + timedelta(seconds=40)
S, R = OccurrenceState, RunState


def test_an_occurrence_past_its_deadline_is_stale_and_its_open_runs_are_canceled(
    job: Job, task: Task, second: Task
) -> None:
    occurrence, (run, done) = start_occurrence(job, NOW, task, second, execution_timeout="40s")
    over = {"state": R.SUCCESS, "finished_at": NOW, "claim_token": None, "lease_until": None}
    TaskRun.objects.filter(id=done.id).update(**over)
    Attempt.objects.filter(run=done).update(state="success", finished_at=NOW)
    assert end_overdue(DEADLINE - timedelta(microseconds=1)) == Settled()
    assert end_overdue(DEADLINE) == Settled(finished=(occurrence.id,))

    occurrence.refresh_from_db()
    assert (occurrence.state, occurrence.finished_at) == (S.FAILED_STALE, DEADLINE)
    runs = list(TaskRun.objects.order_by("position").values_list("state", "reason"))
    assert runs == [("canceled", "execution timeout"), ("success", "")]
    attempts = Attempt.objects.order_by("run__position").values_list("state", flat=True)
    assert list(attempts) == ["canceled", "success"]
    assert occurrence.report is not None
    statuses = [(item["status"], item["reason"]) for item in occurrence.report["tasks"]]
    assert statuses == [("canceled", "execution timeout"), ("success", "")]
    assert TaskRun.objects.get(id=run.id).claim_token is None, "a late result will be rejected"
    assert end_overdue(DEADLINE) == Settled(), "ended only once"


@pytest.mark.parametrize("state", [S.COMPLETED, S.FAILED, S.CANCELED, S.SKIPPED])
def test_a_finished_occurrence_cannot_become_stale(job: Job, state: OccurrenceState) -> None:
    saved(an_occurrence(job, NOW, state, deadline_at=NOW))
    assert end_overdue(DEADLINE) == Settled()


def test_an_occurrence_that_was_not_claimed_has_no_deadline(job: Job, task: Task) -> None:
    saved(a_run(saved(an_occurrence(job, NOW, S.DISPATCHED)), task))
    assert end_overdue(NOW + timedelta(days=999)) == Settled()


@pytest.mark.req("OCC-6")
def test_the_slot_of_a_stale_occurrence_goes_to_the_next_waiting_one(job: Job, task: Task) -> None:
    start_occurrence(job, NOW, task, execution_timeout="40s")
    waiting = saved(an_occurrence(job, NOW + timedelta(seconds=1), S.QUEUED))
    settled = end_overdue(DEADLINE)
    assert [TaskRun.objects.get(id=id_).occurrence_id for id_ in settled.released] == [waiting.id]
    assert Occurrence.objects.get(id=waiting.id).state == S.DISPATCHED
