from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from execution.dispatch import Dispatched
from jobs.models import Job, Task
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState, RunState
from recovery.unsettled import PATIENCE, ask_to_settle
from tests.execution.conftest import NOW, broker_down
from tests.harness import Harness
from tests.occurrences.ledger import a_run, an_occurrence, saved

pytestmark = pytest.mark.req("REC-3")

S, R = OccurrenceState, RunState
TICK = timedelta(microseconds=1)


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


@pytest.fixture
def occurrence(job: Job) -> Occurrence:
    return saved(an_occurrence(job, NOW, S.RUNNING))


def test_an_occurrence_whose_runs_are_over_is_asked_about_after_a_while(
    queue: Harness, occurrence: Occurrence, task: Task
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    assert ask_to_settle(NOW + PATIENCE - TICK).sent == 0
    assert ask_to_settle(NOW + PATIENCE).sent == 1
    assert queue.take() == ("punctual.settle", str(occurrence.id))


def test_a_sequence_whose_next_step_was_never_released_is_asked_about(
    occurrence: Occurrence, task: Task, second: Task
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    saved(a_run(occurrence, second, available_at=None))
    assert ask_to_settle(NOW + PATIENCE).sent == 1


@pytest.mark.parametrize("state", [R.SCHEDULED, R.RUNNING, R.RETRY])
def test_work_that_is_under_way_is_left_alone(
    occurrence: Occurrence, task: Task, second: Task, state: RunState
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    saved(a_run(occurrence, second, state))
    assert ask_to_settle(NOW + timedelta(days=1)).sent == 0


@pytest.mark.req("JOB-9")
def test_hooks_still_owed_are_asked_for(job: Job) -> None:
    owed = saved(an_occurrence(job, NOW, S.FAILED, finalized_at=None))
    assert ask_to_settle(NOW + PATIENCE - TICK).sent == 0
    assert ask_to_settle(NOW, just_ended=[owed.id]).sent == 1, "ended by this very sweep: no need to wait"
    assert ask_to_settle(NOW + PATIENCE).sent == 1
    Occurrence.objects.update(finalized_at=NOW)
    assert ask_to_settle(NOW + PATIENCE).sent == 0


def test_a_broker_that_is_down_is_no_error(queue: Harness, job: Job) -> None:
    saved(an_occurrence(job, NOW, S.FAILED, finalized_at=None))
    with broker_down():
        assert ask_to_settle(NOW + PATIENCE) == Dispatched(failed=1)
    assert queue.take() is None


def test_what_another_sweep_has_asked_about_meanwhile_is_left_to_it(queue: Harness, job: Job) -> None:
    saved(an_occurrence(job, NOW, S.FAILED, finalized_at=None))
    asked: list[str] = []

    def quicker(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        """Between what this sweep found and its taking it on."""
        if sql.startswith("SELECT"):
            asked.append(sql)
            if len(asked) == 3:
                Occurrence.objects.update(asked_at=NOW + PATIENCE)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(quicker):
        assert ask_to_settle(NOW + PATIENCE) == Dispatched()
    assert len(asked) == 3
    assert queue.take() is None
