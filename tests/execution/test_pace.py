from uuid import uuid4

import pytest

from execution.models import Pace
from execution.pace import ENOUGH, EVERY, SHORT, WINDOW, Paces, p95, proven_short
from jobs.models import Task
from tests.execution.conftest import NOW

pytestmark = pytest.mark.django_db


class Stopwatch:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def paces(stopwatch: Stopwatch) -> Paces:
    return Paces(stopwatch)


def noted(paces: Paces, task: Task, seconds: float, times: int) -> int:
    for _ in range(times):
        paces.note(task.id, seconds)
    return paces.write([task.id], now=NOW)


@pytest.mark.parametrize(
    ("calls", "expected"), [([1.0], 1.0), ([0.0] * 19 + [9.0], 0.0), ([0.0] * 9 + [9.0], 9.0)]
)
def test_one_slow_call_in_twenty_is_forgiven(calls: list[float], expected: float) -> None:
    assert p95(calls) == expected


def test_a_task_is_short_once_enough_of_its_calls_were(paces: Paces, task: Task) -> None:
    assert noted(paces, task, 0.001, ENOUGH - 1) == 0
    assert proven_short([task.id]) == {}, "first runs go alone"
    assert noted(paces, task, 0.001, 1) == 1
    assert proven_short([task.id, uuid4()]) == {str(task.id): 0.001}


def test_a_task_that_takes_longer_is_not_short(paces: Paces, task: Task) -> None:
    noted(paces, task, SHORT * 1.01, ENOUGH)
    assert Pace.objects.get().samples == ENOUGH
    assert proven_short([task.id]) == {}


def test_the_same_verdict_is_written_again_after_a_while_only(
    paces: Paces, stopwatch: Stopwatch, task: Task
) -> None:
    noted(paces, task, 0.001, ENOUGH)
    assert noted(paces, task, 0.002, WINDOW) == 0
    stopwatch.seconds = EVERY
    assert noted(paces, task, 0.002, 1) == 1
    assert proven_short([task.id]) == {str(task.id): 0.002}


def test_another_verdict_is_written_at_once(paces: Paces, task: Task) -> None:
    noted(paces, task, 0.001, WINDOW)
    assert noted(paces, task, 1.0, 3) == 1, "three of fifty calls were slow"
    assert proven_short([task.id]) == {}


@pytest.mark.django_db(transaction=True)
def test_a_task_that_is_gone_is_no_trouble(paces: Paces, task: Task) -> None:
    stranger = Task(id=uuid4(), job=task.job, name="gone")
    noted(paces, stranger, 0.001, ENOUGH)
    assert not Pace.objects.exists()
