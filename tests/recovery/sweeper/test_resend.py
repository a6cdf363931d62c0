from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from redis.connection import AbstractConnection

from punctual.conf import current_settings
from punctual.execution.broker.dispatch import dispatch
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.sweeper.resend import UNSENT_AFTER, Resent, lost_messages, resend
from tests.execution.conftest import NOW, broker_down
from tests.harness import Harness
from tests.occurrences.factories import a_run, a_task, an_occurrence, saved

pytestmark = pytest.mark.req("OCC-7")

TICK = timedelta(microseconds=1)


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


def released(job: Job, task: Task, state: RunState = RunState.SCHEDULED, **columns: Any) -> TaskRun:
    return saved(a_run(saved(an_occurrence(job, NOW, OccurrenceState.RUNNING)), task, state, **columns))


def test_an_unconfirmed_message_is_sent_again_after_a_few_seconds(
    queue: Harness, job: Job, task: Task
) -> None:
    run = released(job, task)
    assert resend(NOW + UNSENT_AFTER - TICK) == Resent()
    assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1, sent=1)
    run.refresh_from_db()
    assert run.dispatched_at == NOW + UNSENT_AFTER
    assert queue.lose_messages() == 1


def test_an_unclaimed_message_is_sent_again_once_per_lost_after(queue: Harness, job: Job, task: Task) -> None:
    released(job, task, dispatched_at=NOW)
    lost_at = NOW + current_settings().lost_after
    assert resend(lost_at - TICK) == Resent()
    assert resend(lost_at) == Resent(lost=1, sent=1)
    assert resend(lost_at + timedelta(seconds=2)) == Resent(), "not at every sweep"
    assert queue.lose_messages() == 1


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.SCHEDULED])
def test_a_run_that_is_claimed_waiting_or_finished_is_not_sent(job: Job, task: Task, state: RunState) -> None:
    released(job, task, state)
    assert resend(NOW + timedelta(days=1)) == Resent()


def test_a_step_that_is_not_released_is_not_sent(job: Job, task: Task) -> None:
    released(job, task, available_at=None)
    assert resend(NOW + timedelta(days=1)) == Resent()


def test_while_the_broker_is_down_the_message_stays_unsent(queue: Harness, job: Job, task: Task) -> None:
    run = released(job, task)
    with broker_down():
        assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1, failed=1)
    run.refresh_from_db()
    assert run.dispatched_at is None
    assert resend(NOW + UNSENT_AFTER) == Resent(unsent=1, sent=1)
    assert queue.lose_messages() == 1


@pytest.mark.django_db
def test_without_unclaimed_runs_nothing_is_sent(queue: Harness) -> None:
    assert resend(NOW) == Resent()
    assert queue.take() is None


# -- while other messages wait in the queue ----------------------------------------------------------------


def sent(job: Job, task: Task, seconds: float, *, lost: bool = False, name: str = "default") -> TaskRun:
    """A run whose message was sent `seconds` after `NOW`, and is in the queue unless it is lost."""
    at = NOW + timedelta(seconds=seconds)
    row = saved(an_occurrence(job, at, OccurrenceState.RUNNING, config={"overlap": "allow"}))
    run = saved(a_run(row, task, RunState.SCHEDULED, available_at=at, policy={"queue": name}))
    if lost:
        TaskRun.objects.filter(pk=run.pk).update(dispatched_at=at)
    else:
        assert dispatch([run.pk], now=at).sent == 1
    return run


def resent_ids(after: timedelta, *, limit: int = 500) -> set[UUID]:
    now = NOW + after
    resend(now, limit=limit)
    return set(TaskRun.objects.filter(dispatched_at=now).values_list("pk", flat=True))


LATER = timedelta(minutes=2)


@pytest.mark.usefixtures("on_redis")
def test_a_message_older_than_the_next_in_its_queue_is_lost(job: Job, task: Task) -> None:
    lost = sent(job, task, 0, lost=True)
    for seconds in (20, 21, 22):
        sent(job, task, seconds)
    assert resent_ids(LATER) == {lost.pk}
    assert resent_ids(LATER + timedelta(seconds=1)) == set(), "not at every sweep"


@pytest.mark.usefixtures("on_redis")
def test_a_message_sent_at_about_the_same_time_as_the_next_one_is_not_lost(job: Job, task: Task) -> None:
    sent(job, task, 16, lost=True)
    sent(job, task, 20)
    assert resent_ids(LATER) == set()


@pytest.mark.usefixtures("on_redis")
def test_a_message_that_is_in_the_queue_twice_makes_no_other_message_lost(job: Job, task: Task) -> None:
    twice = sent(job, task, 0)
    for seconds in (10, 20, 30):
        sent(job, task, seconds)
    TaskRun.objects.filter(pk=twice.pk).update(dispatched_at=NOW + timedelta(seconds=60))
    assert resent_ids(LATER) == set()


def test_a_backlog_of_one_queue_does_not_hide_a_lost_message_of_another(job: Job, task: Task) -> None:
    for seconds in range(40):
        sent(job, task, seconds)
    lost = sent(job, task, 20.5, lost=True, name="other")
    resent = [resent_ids(LATER + timedelta(seconds=2 * sweep), limit=4) for sweep in range(40)]
    assert {lost.pk} in resent
    assert set().union(*resent) == {lost.pk}


def test_in_a_queue_whose_next_message_is_unknown_nothing_is_lost(job: Job, task: Task) -> None:
    sent(job, task, 0, lost=True)
    unknown = sent(job, task, 50)
    Occurrence.objects.filter(pk=unknown.occurrence_id).delete()
    assert resent_ids(LATER) == set()


def test_while_the_broker_does_not_answer_nothing_is_lost(job: Job, task: Task) -> None:
    sent(job, task, 0, lost=True)
    with broker_down():
        assert resend(NOW + LATER) == Resent()


def test_after_one_queue_times_out_the_other_queues_are_not_tried(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[object] = []
    connect: Any = AbstractConnection.connect

    def record_connect(self: Any) -> None:
        connections.append(self)
        connect(self)

    monkeypatch.setattr(AbstractConnection, "connect", record_connect)
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.RUNNING))
    costs = []
    for position, queue in enumerate(("first", "second")):
        step = saved(a_task(job, queue, position=position))
        saved(a_run(occurrence, step, dispatched_at=NOW, policy={"queue": queue}))
        connections.clear()
        with broker_down():
            assert lost_messages(NOW + current_settings().lost_after) == []
        costs.append(len(connections))
    assert costs[0] == costs[1] > 0
