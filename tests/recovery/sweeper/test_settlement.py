from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from punctual.conf import current_settings
from punctual.execution.broker.dispatch import Dispatched
from punctual.execution.ending.hook_calls import claim, end_try, register
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.models import HookCall
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.sweeper.settlement import SETTLE_GRACE, request_settlement
from tests.execution.conftest import NOW, broker_down
from tests.harness import Harness
from tests.occurrences.factories import a_job, a_run, an_occurrence, saved

pytestmark = pytest.mark.req("REC-3")

S, R = OccurrenceState, RunState
TICK = timedelta(microseconds=1)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


@pytest.fixture
def occurrence(job: Job) -> Occurrence:
    return saved(an_occurrence(job, NOW, S.RUNNING))


def test_settlement_of_an_occurrence_without_open_runs_is_requested_after_the_grace(
    queue: Harness, occurrence: Occurrence, task: Task
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    assert request_settlement(NOW + SETTLE_GRACE - TICK).sent == 0
    assert request_settlement(NOW + SETTLE_GRACE).sent == 1
    assert queue.take() == ("punctual.settle", str(occurrence.id))


def test_settlement_of_a_sequence_whose_next_step_was_not_released_is_requested(
    occurrence: Occurrence, task: Task, second: Task
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    saved(a_run(occurrence, second, available_at=None))
    assert request_settlement(NOW + SETTLE_GRACE).sent == 1


@pytest.mark.parametrize("state", [R.SCHEDULED, R.RUNNING, R.RETRY])
def test_no_settlement_is_requested_while_a_run_is_open(
    occurrence: Occurrence, task: Task, second: Task, state: RunState
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    saved(a_run(occurrence, second, state))
    assert request_settlement(NOW + timedelta(days=1)).sent == 0


@pytest.mark.req("JOB-9")
def test_settlement_is_requested_for_hooks_that_were_not_called(job: Job) -> None:
    occurrence = saved(an_occurrence(job, NOW, S.FAILED, finalized_at=None))
    assert request_settlement(NOW + SETTLE_GRACE - TICK).sent == 0
    assert request_settlement(NOW, just_ended=[occurrence.id]).sent == 1, "no grace: this sweep ended it"
    assert request_settlement(NOW + SETTLE_GRACE).sent == 1
    Occurrence.objects.update(finalized_at=NOW)
    assert request_settlement(NOW + SETTLE_GRACE).sent == 0


def owing(job: Job, count: int, hook: str = "a.hook") -> list[HookCall]:
    """Finished occurrences with a call that waits for a process."""
    columns: dict[str, Any] = {"config": {"on_complete": [hook], "queue": "default"}, "finalized_at": None}
    rows = [saved(an_occurrence(job, NOW + n * HOUR, S.FAILED, **columns)) for n in range(count)]
    register(rows, now=NOW)
    return list(HookCall.objects.filter(hook=hook).order_by("occurrence__scheduled_for"))


@pytest.mark.req("JOB-9")
def test_as_many_calls_of_hooks_are_requested_as_have_a_slot_each_once(queue: Harness, job: Job) -> None:
    calls = {("punctual.settle", str(call.occurrence_id)) for call in owing(job, 3)}
    assert request_settlement(NOW).sent == 2
    asked = {queue.take(), queue.take()}
    assert len(asked & calls) == 2
    assert request_settlement(NOW + TICK).sent == 1, "the third: their slots are still free"
    assert request_settlement(NOW + TICK).sent == 0
    assert request_settlement(NOW + SETTLE_GRACE).sent == 2, "no worker has called them"
    HookCall.objects.update(finished_at=NOW)
    assert request_settlement(NOW + 3 * HOUR).sent == 3, "to finalize them"


@pytest.mark.req("JOB-9")
def test_a_hook_that_is_being_called_is_not_requested(queue: Harness, job: Job) -> None:
    (call,) = owing(job, 1)
    settings = current_settings()
    token = claim(call, hung=False, worker="w", now=NOW, settings=settings)
    lease = settings.hook_timeout + settings.kill_after + settings.lease
    assert request_settlement(NOW + lease - TICK).sent == 0
    assert token is not None
    assert request_settlement(NOW + lease).sent == 1


@pytest.mark.req("JOB-9")
def test_of_the_hooks_that_hung_one_is_requested_at_a_time(queue: Harness, job: Job) -> None:
    calls = owing(job, 3)
    settings = current_settings()
    token = claim(calls[0], hung=False, worker="w", now=NOW, settings=settings)
    assert token is not None
    end_try(calls[0].id, token, Result(Ending.TIMEOUT, error="hung"), now=NOW)
    assert request_settlement(NOW).sent == 1
    token = claim(calls[0], hung=True, worker="w", now=NOW, settings=settings)
    assert request_settlement(NOW + SETTLE_GRACE).sent == 0
    sound = owing(saved(a_job("sound", NOW)), 3, "another.hook")
    assert request_settlement(NOW + SETTLE_GRACE).sent == 1, "the other slot"
    assert HookCall.objects.get(requested_at=NOW + SETTLE_GRACE) in sound


def test_while_the_broker_is_down_requests_are_counted_as_failed(queue: Harness, job: Job) -> None:
    saved(an_occurrence(job, NOW, S.FAILED, finalized_at=None))
    with broker_down():
        assert request_settlement(NOW + SETTLE_GRACE) == Dispatched(failed=1)
    assert queue.take() is None


def test_a_request_of_another_sweep_is_not_repeated(queue: Harness, job: Job) -> None:
    saved(an_occurrence(job, NOW, S.FAILED, finalized_at=None))
    reads: list[str] = []

    def request_first(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        """Another sweep marks its request between this sweep's read and its lock."""
        if sql.startswith("SELECT"):
            reads.append(sql)
            if len(reads) == 3:
                Occurrence.objects.update(settle_requested_at=NOW + SETTLE_GRACE)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(request_first):
        assert request_settlement(NOW + SETTLE_GRACE) == Dispatched()
    assert len(reads) == 4, "the last one looks for calls of hooks"
    assert queue.take() is None
