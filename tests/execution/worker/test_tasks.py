"""The doors for messages: which connection they use, and what they do when the worker stops."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import current_app
from celery.app.trace import trace_task
from celery.exceptions import Reject
from django.db import connections

from punctual import Context
from punctual.execution.supervision.board import board
from punctual.execution.worker.connection import close_own_connection
from punctual.execution.worker.database_session import Session
from punctual.execution.worker.work import run, work
from punctual.execution.worker.work import settle_occurrence as settle
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import OccurrenceState
from tests.execution.conftest import NOW
from tests.harness import Harness
from tests.occurrences.factories import a_run, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("EXE-9", "ADO-3")]


@pytest.fixture(autouse=True)
def going_on() -> Iterator[None]:
    yield
    board.head(supervisor=0)


@pytest.fixture
def runs(job: Job, task: Task, second: Task) -> list[TaskRun]:
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.DISPATCHED))
    return [saved(a_run(occurrence, task)), saved(a_run(occurrence, second))]


def test_a_message_that_comes_too_late_goes_back_unclaimed(runs: list[TaskRun]) -> None:
    board.head(supervisor=0, stopping=True)
    with pytest.raises(Reject) as caught:
        run([str(item.id) for item in runs])
    assert caught.value.args == ("the worker was told to stop", True)
    assert set(TaskRun.objects.values_list("state", flat=True)) == {"scheduled"}


def test_a_stop_during_a_bundle_hands_its_unbegun_runs_back(
    runs: list[TaskRun], declared: Registry, queue: Harness
) -> None:
    def stop(_: Context) -> None:
        board.head(supervisor=0, stopping=True)

    for item in runs:
        declared.functions[item.task.function] = TaskFunction(item.task.function, stop)
    ids = [item.id for item in runs]
    assert work(ids, worker="w", clock=queue.clock, stopwatch=queue.stopwatch) == 1
    states = dict(TaskRun.objects.values_list("id", "state"))
    assert [states[id_] for id_ in ids] == ["success", "scheduled"]
    assert Attempt.objects.count() == 1, "it cost no attempt"
    assert queue.take() is not None, "the run is sent again at once"


def note_connections(declared: Registry, runs: list[TaskRun]) -> list[Any]:
    used: list[Any] = []
    for item in runs:
        function = TaskFunction(item.task.function, lambda _: used.append(connections["default"]))
        declared.functions[item.task.function] = function
    return used


@pytest.mark.django_db(transaction=True)
def test_a_message_is_worked_on_with_the_worker_s_own_connection(
    runs: list[TaskRun], declared: Registry, queue: Harness
) -> None:
    used, host = note_connections(declared, runs), connections["default"]
    try:
        for item in runs:
            trace_task(run, "message", ([str(item.id)],), {}, {}, app=current_app)
        trace_task(settle, "message", (str(runs[0].occurrence_id),), {}, {}, app=current_app)
    finally:
        close_own_connection()
    assert used[0] is used[1]
    assert isinstance(used[0], Session)
    assert connections["default"] is host


def test_a_task_called_without_a_message_stays_in_its_caller_s_transaction(
    runs: list[TaskRun], declared: Registry, queue: Harness
) -> None:
    used = note_connections(declared, runs)
    assert run([str(runs[0].id)]) == 1
    assert run.apply(([str(runs[1].id)],)).get() == 1
    settle.apply((str(runs[0].occurrence_id),)).get()
    assert used == [connections["default"]] * 2
