"""A claim → the user's function called, its ending as a value. Nothing a task raises gets past here."""

import asyncio
import inspect
import logging
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs
from celery.exceptions import SoftTimeLimitExceeded

from execution.attending import over
from execution.claim import Claim
from execution.logtail import captured
from execution.loop import run_to_end
from execution.outcome import Ending, Result
from execution.previous import previous_run
from jobs.context import Context, Line
from jobs.errors import Cancel, HandBack, NonRetryable, RetryAfter, Snooze
from jobs.events import WithIds
from jobs.ids import shown
from jobs.registry import registry
from jobs.secrecy import without_secrets

LONGEST_ERROR = 2_000
LONGEST_TRACEBACK = 20_000


def context_of(claim: Claim, line: Line) -> Context:
    run, occurrence = claim.run, claim.occurrence
    name = f"punctual.task.{occurrence.job.name}.{run.task.name}"
    ids = ids_of(claim)
    return Context(
        job=occurrence.job.name,
        task=run.task.name,
        occurrence_id=ids["occurrence"],
        run_id=ids["run"],
        attempt_id=shown("attempt", claim.attempt_id),
        attempt=claim.number,
        scheduled_for=occurrence.scheduled_for,
        run_at=occurrence.run_at,
        started_at=claim.began_at,
        deadline=occurrence.deadline_at,
        metadata=occurrence.job.metadata,
        args=occurrence.args,
        logger=WithIds(logging.getLogger(name), ids),
        cause=occurrence.cause,
        **_covered(occurrence.covers),
        line=line,
        look_back=partial(previous_run, run, occurrence),
    )


def ids_of(claim: Claim) -> dict[str, Any]:
    """What each line that is logged on its way carries."""
    run, occurrence = claim.run, claim.occurrence
    return {
        "job": occurrence.job.name,
        "task": run.task.name,
        "occurrence": occurrence.shown_id,
        "run": run.shown_id,
        "attempt": claim.number,
    }


def _covered(covers: dict[str, Any] | None) -> dict[str, Any]:
    """The span is always there; of a long list only the newest are named."""
    if not covers:
        return {}
    return {
        "covers": tuple(datetime.fromisoformat(text) for text in covers["instants"]),
        "covers_from": datetime.fromisoformat(covers["from"]),
        "covers_count": covers.get("count", len(covers["instants"])),
    }


def perform(claim: Claim, line: Line) -> Result:
    with captured(partial(ids_of, claim)) as lines:
        result = _performed(claim, line)
    log = lines.text()
    return replace(result, log=_storable(log)) if log else result


def _performed(claim: Claim, line: Line) -> Result:
    function = registry.function(claim.run.task.function)
    if function is None:
        message = f"no code registers the function {claim.run.task.function!r}"
        return Result(Ending.FAILED, error_type="Unresolved", error=message)
    try:
        try:
            call(function.call, context_of(claim, line))
        finally:
            over()  # in here: an interruption that comes just now must still be an ending
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a task may raise anything; all of it is data
        return ended(error)
    except SystemExit as error:
        if terminate_handler_fired():
            raise  # not the task's: somebody ends this process
        return ended(error)
    return Result(Ending.SUCCESS)


def call(function: Callable[..., Any], context: Context) -> Any:
    result = function(context)
    # Asked of the result, not of the function: a plain decorator may hide an async function.
    return run_to_end(result) if inspect.isawaitable(result) else result


def ended(error: BaseException) -> Result:  # noqa: PLR0911 - a table
    match error:
        case Cancel():
            return Result(Ending.CANCELED, error=_text(error))
        case Snooze():
            return Result(Ending.SNOOZED, delay=error.delay)
        case HandBack():
            return Result(Ending.RELEASED, error=_text(error))
        case RetryAfter():
            return _failure(Ending.FAILED, error, error.delay)
        case NonRetryable():
            return _failure(Ending.FATAL, error)
        case SoftTimeLimitExceeded():
            return replace(_failure(Ending.TIMEOUT, error), error="it took longer than its task_timeout")
    return _failure(Ending.FAILED, error)


def _failure(ending: Ending, error: BaseException, delay: Any = None) -> Result:
    shown_trace = "".join(traceback.format_exception(error))
    return Result(
        ending,
        error_type=type(error).__qualname__[:200],
        error=_text(error),
        traceback=_storable(shown_trace)[-LONGEST_TRACEBACK:],
        delay=delay,
    )


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - even an error's own text is user code
        text = f"<unprintable {type(error).__qualname__}>"
    return _storable(text)[:LONGEST_ERROR]


def _storable(text: str) -> str:
    """No secrets; and no NUL or lone surrogate, which a database refuses: a result must not be lost."""
    return without_secrets(text).replace("\0", "\\x00").encode(errors="backslashreplace").decode()
