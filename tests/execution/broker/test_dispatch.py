from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from uuid import uuid4

import pytest
from amqp.exceptions import ConnectionForced, MessageNacked, PreconditionFailed
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.execution.broker.dispatch import Dispatched, dispatch
from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.jobs.ids import attempt_id
from punctual.jobs.models import Job, Task
from punctual.occurrences import outbox, transitions
from punctual.occurrences.engines.contract import Take
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.sweeper.resend import UNSENT_AFTER, resend
from tests.execution.conftest import NOW, broker_down, redis_down, result_store_down
from tests.harness import Harness
from tests.occurrences.factories import a_run, an_occurrence, saved

pytestmark = pytest.mark.req("OCC-7")

LATER = NOW + timedelta(seconds=1)
S, R = OccurrenceState, RunState
Outage = Callable[[], AbstractContextManager[None]]


def released(job: Job, *tasks: Task, mode: str = "parallel") -> list[TaskRun]:
    occurrence = saved(an_occurrence(job, NOW, S.DISPATCHED, config={"mode": mode}))
    return [saved(a_run(occurrence, task)) for task in tasks]


def test_runs_that_the_broker_accepted_are_marked_as_sent(queue: Harness, job: Job, task: Task) -> None:
    (run,) = released(job, task)
    assert dispatch([run.id], now=LATER) == Dispatched(sent=1)
    run.refresh_from_db()
    assert run.dispatched_at == LATER
    assert queue.take() == ("punctual.run", [str(run.id)])
    assert queue.received[0][0] == str(attempt_id(run.id, 0))
    assert queue.take() is None


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_runs_given_with_their_facts_are_sent_as_if_given_by_id(
    queue: Harness, job: Job, task: Task, second: Task, mode: str
) -> None:
    ids = [run.id for run in released(job, task, second, mode=mode)]
    facts = outbox.read_ready(ids)
    assert dispatch(ids, now=NOW) == Dispatched(sent=2)
    assert queue.lose_messages() == 2
    first = queue.received.copy()
    queue.received.clear()
    TaskRun.objects.update(dispatched_at=None)
    with CaptureQueriesContext(connection) as queries:
        assert dispatch(facts, now=NOW) == Dispatched(sent=2)
    assert queue.lose_messages() == 2
    assert [id_ for id_, _ in queue.received] == [id_ for id_, _ in first]
    assert not [query for query in queries if '"punctual_job"' in query["sql"]], "nothing is read again"


def test_facts_of_runs_that_were_sent_or_claimed_since_send_nothing(
    queue: Harness, job: Job, task: Task, second: Task
) -> None:
    runs = released(job, task, second)
    facts = outbox.read_ready([run.id for run in runs])
    dispatch([runs[0].id], now=NOW)
    transitions.claim([runs[1].id], Take(uuid4(), "w", NOW, NOW + timedelta(seconds=30)))
    assert queue.lose_messages() == 1
    assert dispatch(facts, now=LATER) == Dispatched()
    assert queue.take() is None


def test_a_run_is_sent_at_the_time_at_which_the_broker_accepted_it(
    queue: Harness, job: Job, task: Task
) -> None:
    (run,) = released(job, task)
    assert dispatch([run.id], now=NOW, clock=lambda: LATER) == Dispatched(sent=1)
    run.refresh_from_db()
    assert run.dispatched_at == LATER


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize(("mode", "chords"), [("parallel", True), ("parallel", False), ("sequential", True)])
def test_every_run_gets_one_message_chord_or_not(
    queue: Harness,
    job: Job,
    task: Task,
    second: Task,
    mode: str,
    chords: bool,  # noqa: FBT001
) -> None:
    runs = released(job, task, second, mode=mode)
    assert dispatch([run.id for run in runs], now=LATER, chords=chords) == Dispatched(sent=2)
    assert queue.lose_messages() == 2
    assert {args[0][0] for _, args in queue.received} == {str(run.id) for run in runs}


@pytest.mark.parametrize("state", [state for state in R if state is not R.SCHEDULED])
def test_a_run_that_is_not_scheduled_is_not_sent(
    queue: Harness, job: Job, task: Task, state: RunState
) -> None:
    run = saved(a_run(saved(an_occurrence(job, NOW, S.RUNNING)), task, state))
    assert dispatch([run.id], now=LATER) == Dispatched()
    assert queue.take() is None


@pytest.mark.req("OCC-7")
def test_a_sent_run_is_sent_again_only_when_it_counts_as_lost(queue: Harness, job: Job, task: Task) -> None:
    ids = [run.id for run in released(job, task)]
    dispatch(ids, now=NOW)
    assert dispatch(ids, now=NOW) == Dispatched(sent=0)
    assert dispatch(ids, now=NOW, lost_since=NOW - timedelta(seconds=1)) == Dispatched(sent=0)
    assert dispatch(ids, now=NOW, lost_since=NOW) == Dispatched(sent=1)
    assert queue.lose_messages() == 2


@pytest.mark.django_db
def test_runs_held_back_and_unknown_ids_are_not_sent(queue: Harness, job: Job, task: Task) -> None:
    run = saved(a_run(saved(an_occurrence(job, NOW, S.RUNNING)), task, available_at=None))
    assert dispatch([run.id, uuid4()], now=LATER) == dispatch([], now=LATER) == Dispatched()
    assert queue.take() is None


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("down", [broker_down, redis_down])
def test_a_broker_that_is_down_delays_but_loses_nothing(
    queue: Harness, job: Job, task: Task, second: Task, mode: str, down: Outage
) -> None:
    runs = released(job, task, second, mode=mode)
    ids = [run.id for run in runs]
    with down():
        assert dispatch(ids, now=NOW) == Dispatched(failed=2)
        assert resend(NOW + UNSENT_AFTER).unsent == 2
    assert set(TaskRun.objects.values_list("dispatched_at", flat=True)) == {None}

    resend(NOW + UNSENT_AFTER)
    assert set(TaskRun.objects.values_list("dispatched_at", flat=True)) == {NOW + UNSENT_AFTER}
    assert queue.lose_messages() == 2


def test_a_result_store_that_is_down_delays_a_chord_until_its_runs_are_sent_one_by_one(
    queue: Harness, job: Job, task: Task, second: Task
) -> None:
    runs = released(job, task, second)
    with result_store_down():
        assert dispatch([run.id for run in runs], now=NOW) == Dispatched(failed=2)
        assert resend(NOW + UNSENT_AFTER).unsent == 2
    assert set(TaskRun.objects.values_list("dispatched_at", flat=True)) == {NOW + UNSENT_AFTER}


@pytest.mark.postgres
def test_sending_locks_the_runs_and_no_row_beside_them(queue: Harness, job: Job, task: Task) -> None:
    (run,) = released(job, task)
    with CaptureQueriesContext(connection) as queries:
        dispatch([run.id], now=LATER)
    (locking,) = [query["sql"] for query in queries if "FOR NO KEY UPDATE" in query["sql"]]
    assert "JOIN" not in locking


@pytest.mark.parametrize("error", [ConnectionForced, MessageNacked, PreconditionFailed])
def test_errors_of_rabbitmq_count_as_broker_errors(error: type[Exception]) -> None:
    assert issubclass(error, BROKER_ERRORS)
