"""A stopping worker begins nothing: it rejects messages, and hands unbegun runs back."""

from collections.abc import Iterator

import pytest
from celery.exceptions import Reject

from punctual import Context
from punctual.execution.supervision.board import board
from punctual.execution.worker.tasks import run
from punctual.execution.worker.work import work
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import OccurrenceState
from tests.execution.conftest import NOW
from tests.harness import Harness
from tests.occurrences.factories import a_run, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.req("EXE-9")]


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
