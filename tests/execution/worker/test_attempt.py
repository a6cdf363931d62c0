import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from punctual import Cancel, Context, HandBack, NonRetryable, RetryAfter, Snooze
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.supervision.board import board
from punctual.execution.worker.attempt import build_context, perform
from punctual.execution.worker.claim import LEASE, Claim
from punctual.execution.worker.failure import MAX_ERROR_LENGTH, MAX_TRACEBACK_LENGTH, result_of_error
from punctual.jobs.context import DetachedChannel
from punctual.jobs.declaration.registry import Registry, TaskFunction, registry
from punctual.jobs.ids import attempt_id
from punctual.occurrences.states import OccurrenceState, RunState
from tests.occurrences.factories import a_claimed_run, a_job, a_run, a_task, an_occurrence

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
JOB = a_job("nightly", NOW, metadata={"team": "data"})


@pytest.fixture(autouse=True)
def declared() -> Iterator[Registry]:
    with registry.isolated():
        yield registry


def claimed(function: Callable[..., Any] | None, number: int = 0) -> Claim:
    if function is not None:
        registry.add_function(TaskFunction("nowhere.step", function))
    occurrence = an_occurrence(JOB, NOW, OccurrenceState.RUNNING, args={"day": "monday"})
    run = a_run(occurrence, a_task(JOB), RunState.RUNNING, started_at=NOW + timedelta(seconds=3))
    began_at = run.started_at
    attempt = attempt_id(run.id, number)
    return Claim(a_claimed_run(run), uuid4(), "w", NOW + LEASE, number, attempt, began_at)


def attempt(claim: Claim) -> Result:
    """Perform the claim as a worker's process does."""
    slot = board.own_slot()
    try:
        return perform(claim, registry.function(claim.run.function), slot)
    finally:
        slot.end()


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this works")


@pytest.mark.req("EXE-6")
def test_a_task_is_told_what_it_runs_for() -> None:
    seen: list[Context] = []
    claim = claimed(seen.append, number=2)
    assert attempt(claim).ending is Ending.SUCCESS

    (context,) = seen
    run, occurrence = claim.run, claim.run.occurrence
    assert (context.job, context.task, context.attempt) == ("nightly", "step", 2)
    assert context.scheduled_for == context.run_at == NOW
    assert context.started_at == NOW + timedelta(seconds=3)
    assert context.deadline == run.deadline_at == NOW + timedelta(hours=1)
    assert (context.occurrence_id, context.run_id) == (f"occ_{occurrence.id}", f"run_{run.id}")
    assert context.attempt_id == f"attempt_{attempt_id(run.id, 2)}"
    assert (context.metadata, context.args) == ({"team": "data"}, {"day": "monday"})


@pytest.mark.req("EXE-6")
def test_the_idempotency_key_is_the_same_for_every_attempt_of_a_run() -> None:
    keys = {build_context(claimed(None, number), DetachedChannel()).idempotency_key for number in range(3)}
    assert len(keys) == 1


@pytest.mark.req("EXE-10")
def test_a_task_sees_that_it_was_canceled() -> None:
    line = DetachedChannel()
    context = build_context(claimed(None), line)
    assert not context.canceled
    assert not context.stopping
    line.canceled = line.stopping = True
    assert context.canceled
    assert context.stopping


def test_sync_and_async_functions_are_run_to_their_end() -> None:
    ended: list[str] = []

    async def fetch(ctx: Context) -> None:
        await asyncio.sleep(0)
        ended.append("async")

    def compute(ctx: Context) -> None:
        ended.append("sync")

    for function in (fetch, compute):
        with registry.isolated():
            assert attempt(claimed(function)).ending is Ending.SUCCESS
    assert ended == ["async", "sync"]


def test_an_async_function_behind_a_plain_decorator_is_awaited_too() -> None:
    def decorated(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(ctx: Context) -> Any:
            return function(ctx)

        return wrapper

    async def fail(ctx: Context) -> None:
        raise ValueError("from within")

    assert attempt(claimed(decorated(fail))).ending is Ending.FAILED


@pytest.mark.req("JOB-4")
def test_an_unregistered_function_is_a_failure_that_names_it() -> None:
    result = attempt(claimed(None))
    assert (result.ending, result.error_type) == (Ending.FAILED, "Unresolved")
    assert result.error == "no code registers the function 'nowhere.step'"


@pytest.mark.req("EXE-7")
@pytest.mark.parametrize(
    ("error", "ending", "delay"),
    [
        (Cancel("enough"), Ending.CANCELED, None),
        (Snooze(5), Ending.SNOOZED, timedelta(seconds=5)),
        (Snooze(timedelta(minutes=1)), Ending.SNOOZED, timedelta(minutes=1)),
        (RetryAfter(7.5), Ending.FAILED, timedelta(seconds=7.5)),
        (NonRetryable("bad data"), Ending.FATAL, None),
        (SoftTimeLimitExceeded(), Ending.TIMEOUT, None),
        (HandBack("the worker stops"), Ending.RELEASED, None),
        (SystemExit(3), Ending.FAILED, None),
        (ValueError("broken"), Ending.FAILED, None),
        (asyncio.CancelledError(), Ending.FAILED, None),
        (RecursionError(), Ending.FAILED, None),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), Ending.FAILED, None),
    ],
)
def test_every_exception_of_a_task_becomes_an_ending(
    error: BaseException, ending: Ending, delay: timedelta | None
) -> None:
    def fail(ctx: Context) -> None:
        raise error

    async def fail_later(ctx: Context) -> None:
        raise error

    for function in (fail, fail_later):
        with registry.isolated():
            result = attempt(claimed(function))
        assert (result.ending, result.delay) == (ending, delay)


@pytest.mark.req("EXE-6")
def test_logged_lines_are_part_of_the_result() -> None:
    def fail(ctx: Context) -> None:
        ctx.logger.warning("about to fail")
        raise KeyError("missing")

    assert attempt(claimed(fail)).log.endswith("WARNING about to fail")


def test_a_failure_keeps_its_type_text_and_traceback() -> None:
    def fail(ctx: Context) -> None:
        raise KeyError("missing")

    result = attempt(claimed(fail))
    assert (result.error_type, result.error) == ("KeyError", "'missing'")
    assert 'raise KeyError("missing")' in result.traceback


def test_a_long_error_is_cut_and_the_end_of_its_traceback_is_kept() -> None:
    result = result_of_error(ValueError("x" * 100_000))
    assert (len(result.error), len(result.traceback)) == (MAX_ERROR_LENGTH, MAX_TRACEBACK_LENGTH)
    assert len(result_of_error(Cancel("x" * 100_000)).error) == MAX_ERROR_LENGTH


@pytest.mark.parametrize(
    "error", [ValueError("a\0b\ud800c"), Cancel("a\0b\ud800c"), RetryAfter(1, "a\0\ud800")]
)
def test_text_that_a_database_refuses_is_escaped(error: Exception) -> None:
    result = result_of_error(error)
    for text in (result.error, result.traceback):
        assert "\0" not in text
        text.encode()


def test_an_error_that_cannot_be_printed_is_still_an_ending() -> None:
    result = result_of_error(UnprintableError())
    assert (result.ending, result.error_type) == (Ending.FAILED, "UnprintableError")
    assert "unprintable" in result.error
