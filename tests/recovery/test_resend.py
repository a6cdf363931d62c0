from datetime import timedelta
from typing import Any

import pytest

from execution.limits import limits
from jobs.models import Job, Task
from occurrences.models import TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery.resend import UNSENT_AFTER, Resent, resend
from tests.execution.conftest import NOW, broker_down
from tests.harness import Harness
from tests.occurrences.ledger import a_run, an_occurrence, saved

pytestmark = pytest.mark.req("OCC-7")

TICK = timedelta(microseconds=1)


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


def released(job: Job, task: Task, state: RunState = RunState.SCHEDULED, **columns: Any) -> TaskRun:
    return saved(a_run(saved(an_occurrence(job, NOW, OccurrenceState.RUNNING)), task, state, **columns))


def test_a_message_nobody_confirmed_is_sent_again_after_a_while(queue: Harness, job: Job, task: Task) -> None:
    run = released(job, task)
    assert resend(NOW + UNSENT_AFTER - TICK) == Resent()
    assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1)
    run.refresh_from_db()
    assert run.dispatched_at == NOW + UNSENT_AFTER
    assert queue.lose_messages() == 1


def test_a_message_no_worker_came_for_is_asked_for_again_once_in_a_while(
    queue: Harness, job: Job, task: Task
) -> None:
    released(job, task, dispatched_at=NOW)
    assert resend(NOW + limits().lost_after - TICK) == Resent()
    assert resend(NOW + limits().lost_after) == Resent(lost=1)
    assert resend(NOW + limits().lost_after + timedelta(seconds=2)) == Resent(), "not at every sweep"
    assert queue.lose_messages() == 1


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.SCHEDULED])
def test_what_is_claimed_waiting_or_over_is_not_sent(job: Job, task: Task, state: RunState) -> None:
    released(job, task, state)
    assert resend(NOW + timedelta(days=1)) == Resent()


def test_a_step_that_waits_its_turn_is_not_sent(job: Job, task: Task) -> None:
    released(job, task, available_at=None)
    assert resend(NOW + timedelta(days=1)) == Resent()


def test_a_broker_that_is_still_down_changes_nothing(queue: Harness, job: Job, task: Task) -> None:
    run = released(job, task)
    with broker_down():
        assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1)
    run.refresh_from_db()
    assert run.dispatched_at is None
    assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1)
    assert queue.lose_messages() == 1


@pytest.mark.django_db
def test_nothing_waiting_sends_nothing(queue: Harness) -> None:
    assert resend(NOW) == Resent()
    assert queue.take() is None
