from uuid import uuid4

import pytest

from punctual.execution.broker.bundling import (
    MIN_CALLS,
    SHORT,
    WINDOW,
    WRITE_INTERVAL,
    Paces,
    p95,
    short_tasks,
)
from punctual.execution.models import Pace
from punctual.jobs.models import Task
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


def note_calls(paces: Paces, task: Task, seconds: float, times: int) -> int:
    for _ in range(times):
        paces.note(task.id, seconds)
    return paces.write([task.id], now=NOW)


@pytest.mark.parametrize(
    ("calls", "expected"), [([1.0], 1.0), ([0.0] * 19 + [9.0], 0.0), ([0.0] * 9 + [9.0], 9.0)]
)
def test_one_slow_call_in_twenty_does_not_count(calls: list[float], expected: float) -> None:
    assert p95(calls) == expected


def test_a_task_is_short_once_enough_of_its_calls_were(paces: Paces, task: Task) -> None:
    assert note_calls(paces, task, 0.001, MIN_CALLS - 1) == 0
    assert short_tasks([task.id]) == {}, "the first runs travel alone"
    assert note_calls(paces, task, 0.001, 1) == 1
    assert short_tasks([task.id, uuid4()]) == {str(task.id): 0.001}


def test_a_task_that_takes_longer_is_not_short(paces: Paces, task: Task) -> None:
    note_calls(paces, task, SHORT * 1.01, MIN_CALLS)
    assert Pace.objects.get().samples == MIN_CALLS
    assert short_tasks([task.id]) == {}


def test_an_unchanged_pace_is_written_again_after_the_interval_only(
    paces: Paces, stopwatch: Stopwatch, task: Task
) -> None:
    note_calls(paces, task, 0.001, MIN_CALLS)
    assert note_calls(paces, task, 0.002, WINDOW) == 0
    stopwatch.seconds = WRITE_INTERVAL
    assert note_calls(paces, task, 0.002, 1) == 1
    assert short_tasks([task.id]) == {str(task.id): 0.002}


def test_a_change_from_short_to_long_is_written_at_once(paces: Paces, task: Task) -> None:
    note_calls(paces, task, 0.001, WINDOW)
    assert note_calls(paces, task, 1.0, 3) == 1, "three of fifty calls were slow"
    assert short_tasks([task.id]) == {}


@pytest.mark.django_db(transaction=True)
def test_the_pace_of_a_deleted_task_is_not_written(paces: Paces, task: Task) -> None:
    stranger = Task(id=uuid4(), job=task.job, name="gone")
    note_calls(paces, stranger, 0.001, MIN_CALLS)
    assert not Pace.objects.exists()
