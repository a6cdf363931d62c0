"""Transitions of runs that wait or are held: leases, release, retries, attempts."""

from datetime import timedelta

import pytest

from punctual.jobs.ids import attempt_id
from punctual.jobs.models import Job, Task
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import Ended
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import (
    RUN_HELD,
    AttemptState,
    Reason,
    RunState,
)
from tests.occurrences.factories import (
    LEASE,
    a_run,
    a_run_end,
    a_task,
    an_attempt,
    columns_of,
    saved,
)
from tests.occurrences.test_transitions import LATER, NOW, TOKEN, R, job, occurrence, take, task

__all__ = ["job", "occurrence", "task"]
pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-3")]


@pytest.mark.req("TSK-2")
@pytest.mark.parametrize("source", R)
def test_a_lease_is_renewed_while_the_run_is_held(
    occurrence: Occurrence, task: Task, source: RunState
) -> None:
    row = saved(a_run(occurrence, task, source))
    token = row.claim_token or TOKEN
    renewed = transitions.renew(row.id, token=token, now=LATER, lease=LEASE)
    assert renewed == (source in RUN_HELD)
    if renewed:
        after = columns_of(TaskRun, row.id)
        assert (after["lease_until"], after["heartbeat_at"]) == (LATER + LEASE, LATER)


@pytest.mark.req("TSK-2")
def test_an_old_token_renews_nothing(occurrence: Occurrence, task: Task) -> None:
    row = saved(a_run(occurrence, task, R.RUNNING))
    before = columns_of(TaskRun, row.id)
    assert not transitions.renew(row.id, token=TOKEN, now=LATER, lease=LEASE)
    assert columns_of(TaskRun, row.id) == before


def test_a_claim_takes_only_what_is_available_by_now(occurrence: Occurrence, task: Task) -> None:
    row = saved(a_run(occurrence, task, available_at=LATER))
    first = attempt_id(row.id, 0)
    early = LATER - timedelta(microseconds=1)
    assert transitions.claim([row.id], take(first, now=early)) == []
    assert [run.id for run in transitions.claim([row.id], take(first))] == [row.id]
    after = columns_of(TaskRun, row.id)
    assert (after["attempts_made"], after["lease_until"]) == (1, LATER + LEASE)


def test_a_step_that_waits_its_turn_cannot_be_claimed_until_released(
    occurrence: Occurrence, task: Task
) -> None:
    row = saved(a_run(occurrence, task, available_at=None))
    assert transitions.claim([row.id], take()) == []
    assert transitions.release([row.id], now=NOW) == 1
    assert transitions.release([row.id], now=LATER) == 0, "a second release does not change the time"
    assert [run.id for run in transitions.claim([row.id], take())] == [row.id]


@pytest.mark.parametrize("source", [state for state in R if state is not R.SCHEDULED])
def test_only_a_scheduled_run_is_released_or_confirmed_as_sent(
    occurrence: Occurrence, task: Task, source: RunState
) -> None:
    row = saved(a_run(occurrence, task, source, available_at=None))
    before = columns_of(TaskRun, row.id)
    assert transitions.release([row.id], now=LATER) == 0
    assert transitions.confirm_dispatch([row.id], now=LATER) == 0
    assert columns_of(TaskRun, row.id) == before


@pytest.mark.req("EXE-4")
def test_a_retry_waits_until_its_time_has_come(occurrence: Occurrence, task: Task) -> None:
    row = saved(a_run(occurrence, task, R.RETRY, available_at=LATER, dispatched_at=NOW))
    assert transitions.reschedule([row.id], now=LATER - timedelta(microseconds=1)) == 0
    assert transitions.reschedule([row.id], now=LATER) == 1
    assert columns_of(TaskRun, row.id)["dispatched_at"] is None


def test_runs_that_wait_together_each_keep_their_own_time_and_error(job: Job, occurrence: Occurrence) -> None:
    tasks = [saved(a_task(job, f"step {number}", position=number)) for number in range(3)]
    runs = [saved(a_run(occurrence, task, R.RUNNING)) for task in tasks]
    times = {run.id: LATER + timedelta(seconds=number) for number, run in enumerate(runs)}
    errors = {run.id: f"error {number}" for number, run in enumerate(runs)}
    ends = [
        a_run_end(
            run, R.RETRY, available_at=times[run.id], error=errors[run.id], message=f"text {run.task.name}"
        )
        for run in runs
    ]
    for run in runs:
        saved(an_attempt(run))
    assert transitions.end(ends, now=LATER) == Ended(set(times), {})
    for run in runs:
        assert Attempt.objects.get(run=run).error == f"text {run.task.name}"
        after = columns_of(TaskRun, run.id)
        assert (after["available_at"], after["error"]) == (times[run.id], errors[run.id])


@pytest.mark.parametrize("state", [state for state in AttemptState if state is not AttemptState.RUNNING])
def test_an_attempt_ends_once_and_keeps_its_ending(
    occurrence: Occurrence, task: Task, state: AttemptState
) -> None:
    run = saved(a_run(occurrence, task, R.RUNNING))
    attempt = saved(an_attempt(run))
    error = {run.id: {"error_type": "E", "error": "text", "traceback": "lines"}}
    assert transitions.end_attempts([run.id], state, now=LATER, errors=error) == 1
    before = columns_of(Attempt, attempt.id)
    assert (before["state"], before["finished_at"], before["error"]) == (state, LATER, "text")
    assert transitions.end_attempts([run.id], AttemptState.FAILED, now=NOW) == 0
    assert columns_of(Attempt, attempt.id) == before


def test_a_canceled_run_s_attempt_is_canceled_with_it(occurrence: Occurrence, task: Task) -> None:
    run = saved(a_run(occurrence, task, R.RUNNING))
    attempt = saved(an_attempt(run))
    transitions.cancel([run.id], reason=Reason.OPERATOR, now=LATER)
    assert columns_of(Attempt, attempt.id)["state"] == AttemptState.CANCELED
