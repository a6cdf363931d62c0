"""Tell Celery how the attempts of a message ended, and through it Flower, Sentry and its signals' receivers.

A failed attempt is no success to them: a message ends as RETRY if its run waits for another attempt, and as
FAILURE if it does not. The ledger has recorded the result before, and nothing here changes it. Celery's own
retries are not used: a wait is a row.

A bundle has one message for several runs. The message ends as its first run did, because it has the id of
that attempt; for the other failed runs the same signals and events are sent here. A member of a chord is
counted as done before its message fails: a failed member would abort the chord.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from billiard.einfo import ExceptionInfo
from celery import Task, current_app, signals
from celery.exceptions import Retry

from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.execution.ending.settle import FailedAttempt
from punctual.execution.supervision.board import board
from punctual.execution.worker.failure import AttemptFailedError


class RunTask(Task):  # type: ignore[type-arg]
    """The class of the task that works on runs."""

    abstract = True
    # The ledger has the result: a failed message is over, whatever the project chooses for its own tasks.
    acks_on_failure_or_timeout = acks_on_failure = True
    store_errors_even_if_ignored = False

    def on_failure(self, _exc: Exception, _id: str, _args: Any, _kwargs: Any, einfo: Any) -> None:
        """Called before the error is logged and sent to the parent process.

        That process gets no object of users' code: to read it, it would import their modules.
        """
        line = self.request.get("failed_attempt")
        if line is not None:
            einfo.type, einfo.exception = AttemptFailedError, AttemptFailedError(line)


def raise_failure(task: RunTask, first: UUID, failures: Sequence[FailedAttempt]) -> None:
    """Raise what the message ends with, unless its first run has succeeded."""
    own = None
    for failure in failures:
        if failure.run == first:
            own = failure
        else:
            _announce(task, failure)
    if own is not None:
        _count_in_chord(task)
        task.request.update(failed_attempt=own.line)
        raise _exception(own)


def _exception(failure: FailedAttempt) -> Exception:
    error = AttemptFailedError(failure.line)
    if failure.retry_at is not None:
        return Retry(exc=error, when=failure.retry_at)
    return failure.exception or error


def _count_in_chord(task: RunTask) -> None:
    request: Any = task.request
    if request.chord:
        with suppress(*BROKER_ERRORS):  # the chord is a hint: the sweeper settles the occurrence
            task.backend.mark_as_done(request.id, 1, request)
        request.update(chord=None, ignore_result=True)


def _announce(task: RunTask, failure: FailedAttempt) -> None:
    """Do for a run inside a bundle what Celery does for a message of its own."""
    error = failure.exception or AttemptFailedError(failure.line)
    details = ExceptionInfo((type(error), error, error.__traceback__))
    if failure.retry_at is None:
        arguments = {"args": ([str(failure.run)],), "kwargs": {}}
        facts = {"exception": error, "traceback": error.__traceback__, "einfo": details, **arguments}
        signals.task_failure.send(sender=task, task_id=str(failure.attempt), **facts)
    else:
        signals.task_retry.send(sender=task, request=task.request, reason=_exception(failure), einfo=details)
    if board.sends_events:
        _send_events(task, failure)


def _send_events(task: RunTask, failure: FailedAttempt) -> None:
    kind = "task-failed" if failure.retry_at is None else "task-retried"
    id_, name = str(failure.attempt), f"{failure.job} / {failure.task}"
    hostname = task.request.hostname
    with (
        suppress(*BROKER_ERRORS),
        current_app.events.default_dispatcher(hostname=hostname) as dispatcher,
    ):
        dispatcher.send("task-received", uuid=id_, name=name, args=f"({name})", kwargs="{}")
        dispatcher.send(kind, uuid=id_, exception=failure.line, traceback=failure.traceback)
