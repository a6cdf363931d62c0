from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from punctual.execution.broker.dispatch import Dispatched
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.recovery.sweeper.settlement import SETTLE_GRACE, request_settlement
from tests.execution.conftest import NOW, broker_down
from tests.harness import Harness
from tests.occurrences.factories import a_run, an_occurrence, saved

pytestmark = pytest.mark.req("REC-3")

S, R = OccurrenceState, RunState
TICK = timedelta(microseconds=1)


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
    assert len(reads) == 3
    assert queue.take() is None
