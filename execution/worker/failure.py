"""Describe what a function raised: how its attempt ends, in texts that can be stored and shown.

An error is an object of the user's code. Its type may have any name, and describing it calls its methods,
which may raise anything themselves. Nothing that they raise leaves this module, except when the process is
being terminated.
"""

import pickle
import traceback
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs
from celery.exceptions import SoftTimeLimitExceeded, TaskPredicate

from punctual.execution.ending.outcome import Ending, Result
from punctual.jobs.errors import Cancel, HandBack, NonRetryable, RetryAfter, Snooze
from punctual.jobs.redaction import redact_text

MAX_TYPE_LENGTH = 200
MAX_ERROR_LENGTH = 2_000
MAX_TRACEBACK_LENGTH = 20_000
MAX_SCANNED = 10  # times the length that is kept; the rest of a huge text is not searched for secrets
NO_DESCRIPTION = "its description cannot be read"


class AttemptFailedError(Exception):
    """Says in text what a function raised, where the error itself must not be shown."""

    def __repr__(self) -> str:
        return str(self)


def result_of_error(error: BaseException) -> Result:
    try:
        return _result(error)
    except BaseException as second:  # noqa: BLE001 - even `isinstance` may call code of the error
        _let_process_end(second)
        kind = _type_name(error)
        shown = AttemptFailedError(f"{kind}: {NO_DESCRIPTION}")
        return Result(Ending.FAILED, error_type=kind, error=NO_DESCRIPTION, exception=shown)


def _result(error: BaseException) -> Result:  # noqa: PLR0911 - a table
    match error:
        case Cancel():
            return Result(Ending.CANCELED, error=_text(error))
        case Snooze(delay=timedelta() as delay):
            return Result(Ending.SNOOZED, delay=delay)
        case HandBack():
            return Result(Ending.RELEASED, error=_text(error))
        case RetryAfter(delay=timedelta() as delay):
            return _failure(Ending.FAILED, error, delay)
        case NonRetryable():
            return _failure(Ending.FATAL, error)
        case SoftTimeLimitExceeded():
            return replace(_failure(Ending.TIMEOUT, error), error="it took longer than its task_timeout")
    return _failure(Ending.FAILED, error)


def _failure(ending: Ending, error: BaseException, delay: timedelta | None = None) -> Result:
    trace = _trace(error)
    stored = storable_text(trace[-MAX_SCANNED * MAX_TRACEBACK_LENGTH :])
    kind, text = _type_name(error), _text(error)
    shown = isinstance(error, Exception) and stored == trace and _can_be_shown(error)
    return Result(
        ending,
        error_type=kind,
        error=text,
        traceback=stored[-MAX_TRACEBACK_LENGTH:],
        delay=delay,
        exception=error if isinstance(error, Exception) and shown else AttemptFailedError(f"{kind}: {text}"),
    )


def _can_be_shown(error: Exception) -> bool:
    """Whether Celery and its integrations may be given the error itself.

    Celery prints and pickles it, and takes some types as instructions. A text with a secret is not passed on.
    """
    if isinstance(error, TaskPredicate):
        return False
    try:
        with suppress(Exception):  # Celery would pass on another type, which can be pickled
            pickle.loads(pickle.dumps(error))  # noqa: S301 - Celery does the same with it
    except BaseException as second:  # noqa: BLE001 - it would end the process
        _let_process_end(second)
        return False
    text = _printed(error, repr)
    return len(text) <= MAX_ERROR_LENGTH and storable_text(text) == text


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException as second:  # noqa: BLE001 - a group of groups of errors may be too deep
        _let_process_end(second)
        return "".join(traceback.format_tb(error.__traceback__))


def _type_name(error: BaseException) -> str:
    return storable_text(_printed(type(error), lambda kind: kind.__qualname__))[:MAX_TYPE_LENGTH]


def _text(error: BaseException) -> str:
    text = _printed(error, str)
    return storable_text(text[: MAX_SCANNED * MAX_ERROR_LENGTH])[:MAX_ERROR_LENGTH]


def _printed(value: Any, describe: Any) -> str:
    try:
        return str.__str__(describe(value))  # a subclass of str may behave in any way
    except BaseException as second:  # noqa: BLE001 - code of the error
        _let_process_end(second)
        return f"<unprintable {type.__getattribute__(type(value), '__name__')}>"


def _let_process_end(error: BaseException) -> None:
    """Raise the exit of a process that is being terminated."""
    if terminate_handler_fired() and not isinstance(error, Exception):
        raise error


def storable_text(text: str) -> str:
    """Redact secrets, and escape NUL and lone surrogates, which a database refuses."""
    return redact_text(text).replace("\0", "\\x00").encode(errors="backslashreplace").decode()
