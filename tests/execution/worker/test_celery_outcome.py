"""What Celery, its signals and its logs say about attempts that failed (TEL-1)."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import current_app, signals, states
from celery.app.trace import trace_task
from celery.exceptions import Reject, Retry

from punctual import Context, Snooze
from punctual.execution.worker.connection import close_own_connection
from punctual.execution.worker.failure import MAX_ERROR_LENGTH, AttemptFailedError
from punctual.execution.worker.work import run
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import OccurrenceState
from tests.execution.conftest import NOW
from tests.harness import Harness
from tests.occurrences.factories import a_run, an_occurrence, saved

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("TEL-1")]

RETRIES = {"retry": {"max_retries": 1, "interval": "1m"}}
FINAL = {"retry": {"max_retries": 0, "interval": "1m"}}
TOLERANT = {**FINAL, "failure_strategy": "continue"}


@pytest.fixture(autouse=True)
def closing(queue: Harness) -> Iterator[None]:
    yield
    close_own_connection()


@pytest.fixture
def sent() -> Iterator[list[tuple[str, Any]]]:
    """Celery's signals about outcomes, with the exception of each."""
    seen: list[tuple[str, Any]] = []

    def failed(exception: Exception, **_: Any) -> None:
        seen.append(("failure", exception))

    def retried(reason: Retry, **_: Any) -> None:
        seen.append(("retry", reason))

    def succeeded(result: object, **_: Any) -> None:
        seen.append(("success", result))

    receivers: dict[Any, Any] = {
        signals.task_failure: failed,
        signals.task_retry: retried,
        signals.task_success: succeeded,
    }
    for signal, receiver in receivers.items():
        signal.connect(receiver, weak=False)
    yield seen
    for signal, receiver in receivers.items():
        signal.disconnect(receiver)


def runs_of(job: Job, *tasks: Task, policy: dict[str, Any]) -> list[TaskRun]:
    occurrence = saved(an_occurrence(job, NOW, OccurrenceState.DISPATCHED))
    made = [a_run(occurrence, task) for task in tasks]
    for item in made:
        item.policy = {**item.policy, **policy}
    return [saved(item) for item in made]


def register(declared: Registry, *functions: Callable[..., Any], runs: list[TaskRun]) -> None:
    for item, function in zip(runs, functions, strict=True):
        declared.functions[item.task.function] = TaskFunction(item.task.function, function)


def receive(runs: list[TaskRun], **request: Any) -> Any:
    """Let Celery work on a message for these runs; the id is that of the first attempt."""
    request = {"id": "message", "ignore_result": True, "delivery_info": {}, **request}
    trace_task(run, "message", ([str(item.id) for item in runs],), {}, request, app=current_app)


def broken(_: Context) -> None:
    raise ValueError("broken")


def fine(_: Context) -> None: ...


def test_a_failure_that_is_retried_is_a_retry_to_celery(
    job: Job, task: Task, declared: Registry, sent: list[tuple[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    runs = runs_of(job, task, policy=RETRIES)
    register(declared, broken, runs=runs)
    with caplog.at_level(logging.INFO):
        receive(runs)
    ((kind, reason),) = sent
    assert (kind, str(reason.exc)) == ("retry", "ValueError: broken")
    assert reason.when == TaskRun.objects.get().available_at
    assert TaskRun.objects.get().state == "retry"
    assert "succeeded" not in caplog.text
    (line,) = [record for record in caplog.records if record.msg.startswith("%s")]
    assert line.levelno == logging.WARNING


def test_a_final_failure_is_a_failure_with_the_real_exception_once(
    job: Job, task: Task, declared: Registry, sent: list[tuple[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    error = ValueError("broken")

    def raise_it(_: Context) -> None:
        raise error

    runs = runs_of(job, task, policy=FINAL)
    register(declared, raise_it, runs=runs)
    with caplog.at_level(logging.INFO):
        receive(runs)
    assert sent == [("failure", error)]
    assert sent[0][1] is error
    assert (TaskRun.objects.get().state, Attempt.objects.get().state) == ("dlq", "failed")
    assert "succeeded" not in caplog.text
    (event,) = [item for item in caplog.records if getattr(item, "event", "") == "attempt.failed"]
    assert event.levelno == logging.ERROR
    # The same object that is raised: Sentry reports it once.
    assert event.exc_info is not None
    assert event.exc_info[1] is error
    assert "raise_it" in caplog.text


def test_outcomes_that_are_no_failures_are_successes(
    job: Job, task: Task, declared: Registry, sent: list[tuple[str, Any]]
) -> None:
    def snooze(_: Context) -> None:
        raise Snooze(60)

    runs = runs_of(job, task, policy=FINAL)
    register(declared, snooze, runs=runs)
    receive(runs)
    assert sent == [("success", 1)]


class InstructionError(Reject):
    """Celery would put the message back into the queue."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyboardInterrupt("stop"), "KeyboardInterrupt: stop"),
        (InstructionError("again", requeue=True), "InstructionError: ('again', True)"),
        (ValueError("x" * 3 * MAX_ERROR_LENGTH), "ValueError: " + "x" * MAX_ERROR_LENGTH),
        (ValueError("hunter2-word"), "ValueError: ••••••••"),
    ],
)
def test_an_error_that_must_not_leave_as_it_is_leaves_as_text(
    job: Job, task: Task, declared: Registry, sent: list[tuple[str, Any]], error: BaseException, text: str
) -> None:
    def raise_it(_: Context) -> None:
        raise error

    (item,) = runs = runs_of(job, task, policy=FINAL)
    item.occurrence.args = {"password": "hunter2-word"}
    item.occurrence.save()
    register(declared, raise_it, runs=runs)
    receive(runs)
    ((kind, exception),) = sent
    assert (kind, type(exception), str(exception)) == ("failure", AttemptFailedError, text)
    assert repr(exception) == text


def test_a_message_of_several_runs_ends_as_its_first_and_signals_every_other_failure(
    job: Job, task: Task, second: Task, declared: Registry, sent: list[tuple[str, Any]]
) -> None:
    runs = runs_of(job, task, second, policy=TOLERANT)
    register(declared, fine, broken, runs=runs)
    receive(runs)
    assert [kind for kind, _ in sent] == ["failure", "success"]
    assert str(sent[0][1]) == "broken"


def test_a_message_whose_first_run_failed_is_no_success(
    job: Job, task: Task, second: Task, declared: Registry, sent: list[tuple[str, Any]]
) -> None:
    runs = runs_of(job, task, second, policy=TOLERANT)
    register(declared, broken, broken, runs=runs)
    receive(runs)
    assert [(kind, str(error)) for kind, error in sent] == [("failure", "broken")] * 2


@pytest.mark.parametrize("policy", [RETRIES, FINAL])
def test_a_failed_member_is_counted_in_its_chord_as_done(
    job: Job,
    task: Task,
    declared: Registry,
    sent: list[tuple[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    policy: dict[str, Any],
) -> None:
    parts: list[str] = []
    backend: Any = run.backend
    monkeypatch.setattr(backend, "on_chord_part_return", lambda _request, state, _result: parts.append(state))
    runs = runs_of(job, task, policy=policy)
    register(declared, broken, runs=runs)
    receive(runs, chord={"task": "punctual.settle"}, group="group")
    assert parts == [states.SUCCESS]
    assert [kind for kind, _ in sent] == ["failure" if policy is FINAL else "retry"]
