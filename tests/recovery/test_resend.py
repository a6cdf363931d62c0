from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from redis.connection import AbstractConnection

from execution.dispatch import dispatch
from execution.limits import limits
from jobs.models import Job, Task
from occurrences.models import Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery.resend import UNSENT_AFTER, Resent, lost_messages, resend
from tests.execution.conftest import NOW, broker_down
from tests.harness import Harness
from tests.occurrences.ledger import a_run, a_task, an_occurrence, saved

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
    assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1, sent=1)
    run.refresh_from_db()
    assert run.dispatched_at == NOW + UNSENT_AFTER
    assert queue.lose_messages() == 1


def test_a_message_no_worker_came_for_is_asked_for_again_once_in_a_while(
    queue: Harness, job: Job, task: Task
) -> None:
    released(job, task, dispatched_at=NOW)
    assert resend(NOW + limits().lost_after - TICK) == Resent()
    assert resend(NOW + limits().lost_after) == Resent(lost=1, sent=1)
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
        assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1, failed=1)
    run.refresh_from_db()
    assert run.dispatched_at is None
    assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1, sent=1)
    assert queue.lose_messages() == 1


@pytest.mark.django_db
def test_nothing_waiting_sends_nothing(queue: Harness) -> None:
    assert resend(NOW) == Resent()
    assert queue.take() is None


# -- while others wait in the queue ----------------------------------------------------------------


def sent(job: Job, task: Task, seconds: float, *, lost: bool = False, name: str = "default") -> TaskRun:
    """A run whose message was sent so many seconds after `NOW`, and is in the queue unless it is lost."""
    at = NOW + timedelta(seconds=seconds)
    row = saved(an_occurrence(job, at, OccurrenceState.RUNNING, config={"overlap": "allow"}))
    run = saved(a_run(row, task, RunState.SCHEDULED, available_at=at, policy={"queue": name}))
    if lost:
        TaskRun.objects.filter(pk=run.pk).update(dispatched_at=at)
    else:
        assert dispatch([run.pk], now=at).sent == 1
    return run


def sent_again(after: timedelta, *, limit: int = 500) -> set[UUID]:
    now = NOW + after
    resend(now, limit=limit)
    return set(TaskRun.objects.filter(dispatched_at=now).values_list("pk", flat=True))


LATER = timedelta(minutes=2)


@pytest.mark.usefixtures("on_redis")
def test_what_the_queue_is_past_is_lost_though_others_wait_in_it(job: Job, task: Task) -> None:
    lost = sent(job, task, 0, lost=True)
    for seconds in (20, 21, 22):
        sent(job, task, seconds)
    assert sent_again(LATER) == {lost.pk}
    assert sent_again(LATER + timedelta(seconds=1)) == set(), "not at every sweep"


@pytest.mark.usefixtures("on_redis")
def test_what_was_sent_at_about_the_same_time_as_what_comes_next_may_be_in_the_queue(
    job: Job, task: Task
) -> None:
    sent(job, task, 16, lost=True)
    sent(job, task, 20)
    assert sent_again(LATER) == set()


@pytest.mark.usefixtures("on_redis")
def test_a_message_that_is_in_the_queue_twice_makes_nobody_else_lost(job: Job, task: Task) -> None:
    twice = sent(job, task, 0)
    for seconds in (10, 20, 30):
        sent(job, task, seconds)
    TaskRun.objects.filter(pk=twice.pk).update(dispatched_at=NOW + timedelta(seconds=60))
    assert sent_again(LATER) == set()


def test_a_backlog_of_one_queue_does_not_hide_for_ever_what_another_has_lost(job: Job, task: Task) -> None:
    for seconds in range(40):
        sent(job, task, seconds)
    lost = sent(job, task, 20.5, lost=True, name="other")
    found = [sent_again(LATER + timedelta(seconds=2 * sweep), limit=4) for sweep in range(40)]
    assert {lost.pk} in found
    assert set().union(*found) == {lost.pk}


def test_in_a_queue_with_others_that_nobody_knows_nothing_is_lost(job: Job, task: Task) -> None:
    sent(job, task, 0, lost=True)
    unknown = sent(job, task, 50)
    Occurrence.objects.filter(pk=unknown.occurrence_id).delete()
    assert sent_again(LATER) == set()


def test_a_broker_that_does_not_answer_has_lost_nothing(job: Job, task: Task) -> None:
    sent(job, task, 0, lost=True)
    with broker_down():
        assert resend(NOW + LATER) == Resent()


def test_a_broker_that_cannot_say_of_one_queue_is_not_waited_for_again(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []
    connect: Any = AbstractConnection.connect

    def trying(self: Any) -> None:
        tried.append(self)
        connect(self)

    monkeypatch.setattr(AbstractConnection, "connect", trying)
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.RUNNING))
    costs = []
    for position, queue in enumerate(("first", "second")):
        step = saved(a_task(job, queue, position=position))
        saved(a_run(occurrence, step, dispatched_at=NOW, policy={"queue": queue}))
        tried.clear()
        with broker_down():
            assert lost_messages(NOW + limits().lost_after) == []
        costs.append(len(tried))
    assert costs[0] == costs[1] > 0
