"""Receive messages and work on them: claim runs, call their functions, report the results, send what follows.

A message carries one run or a bundle of short ones. A bundle is claimed at once and reported at once. A
process that dies costs an attempt to those runs of its bundle that had begun, and to no other run.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar
from uuid import UUID

from celery import shared_task
from celery.exceptions import Reject
from django.db import DatabaseError, InterfaceError, connection, transaction

from punctual.conf import current_settings
from punctual.execution.broker.bundling import paces
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.broker.messages import RUN, SETTLE
from punctual.execution.ending.hook_calls import request_hooks
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import FencedError, end_runs, report, take_next_steps
from punctual.execution.ending.settle import FailedAttempt, Settled, settle
from punctual.execution.supervision.board import Slot, board
from punctual.execution.worker.attempt import perform
from punctual.execution.worker.celery_outcome import RunTask, raise_failure
from punctual.execution.worker.claim import Claim, ClaimedBundle, Stopwatch, claim, report_of_claim
from punctual.execution.worker.connection import own_connection, user_code
from punctual.execution.worker.failure import result_of_error
from punctual.execution.worker.hooks import call_hooks
from punctual.jobs.clock import Clock, steady_now
from punctual.jobs.database_errors import is_database_away
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import format_id
from punctual.jobs.redaction import hide_secret_args
from punctual.occurrences.models import Occurrence

MAX_DATABASE_WAIT = 900.0  # seconds; by then the lease has expired, and another worker has the run
DATABASE_RETRY_PAUSE = 1.0

Answer = TypeVar("Answer")
Sleep = Callable[[float], object]


@shared_task(name=RUN, bind=True, base=RunTask)
def run(self: Any, run_ids: list[str]) -> int:
    """Receive a message: claim its runs, call their functions, and report the results.

    If its first run has failed, what is raised tells Celery so.
    """
    if board.stopping:
        raise Reject("the worker was told to stop", requeue=True)  # another worker takes it at once
    worker = f"{self.request.hostname or 'local'}/{os.getpid()}"
    ids = [UUID(id_) for id_ in run_ids]
    if _belongs_to_caller(self.request):
        return work(ids, worker=worker)
    failed: list[FailedAttempt] = []
    with own_connection():
        attempted = work(ids, worker=worker, failed=failed)
    if failed:
        raise_failure(self, ids[0], failed)
    return attempted


@shared_task(name=SETTLE, bind=True)
def settle_occurrence(self: Any, occurrence_id: str) -> int:
    """Receive a message to settle an occurrence; sent as a chord's callback, and by the sweeper."""
    with nullcontext() if _belongs_to_caller(self.request) else own_connection():
        return settle_now([UUID(occurrence_id)])


def _belongs_to_caller(request: Any) -> bool:
    """Called without a message, a task belongs to its caller, who may have a transaction open."""
    return bool(request.called_directly or request.is_eager)


def work(
    run_ids: Sequence[UUID],
    *,
    worker: str,
    clock: Clock = steady_now,
    stopwatch: Stopwatch = time.monotonic,
    failed: list[FailedAttempt] | None = None,
) -> int:
    """Return the number of runs attempted, and add to `failed` those that failed.

    `stopwatch` measures the time budget of a bundle.
    """
    claims = claim(run_ids, worker=worker, now=clock(), lease=current_settings().lease)
    slot = board.own_slot()
    bundle = ClaimedBundle(claims, slot, clock=clock, stopwatch=stopwatch)
    attempted = []
    # If the process dies in here, the supervisor sees the occupied slot and reports for it.
    try:
        while item := bundle.next():
            args, config = item.run.args, item.run.occurrence.config
            with hide_secret_args(args, config) if args else nullcontext():
                _attempt(item, bundle, slot, clock)
            bundle.stop_timing()
            attempted.append(item.run.task_id)
        settled = retry_while_database_is_away(bundle.report)
    except Exception:
        slot.end()  # the results will not be reported, and the leases must not be renewed
        raise
    slot.end()
    follow_up(settled, clock=clock)
    paces.write(attempted, now=clock())
    if failed is not None:
        failed += bundle.failed
    return len(attempted)


def settle_now(occurrence_ids: Sequence[UUID], *, clock: Clock = steady_now) -> int:
    """Settle occurrences, and call the hooks of those that were settled before and still have hooks to call.

    Most calls are a chord's callback, which arrives when the last report has done everything already.
    """
    if not Occurrence.objects.unsettled().filter(id__in=occurrence_ids).exists():
        return 0
    settled = settle(occurrence_ids, now=clock())
    dispatch(settled.released, now=clock())
    finalized = call_hooks(occurrence_ids, clock=clock, record=retry_while_database_is_away)
    return len(settled.finished) or finalized


def follow_up(settled: Settled, *, clock: Clock) -> None:
    """After the commit: send the runs that were released, and request the hooks of finished occurrences.

    Hooks have messages of their own: one that hangs or kills its process must not take this message with it.
    """
    if settled.released:
        dispatch(settled.released, now=clock())
    if settled.with_hooks:
        request_hooks(settled.with_hooks)


def retry_while_database_is_away(
    step: Callable[[], Answer], *, max_wait: float = MAX_DATABASE_WAIT, sleep: Sleep = time.sleep
) -> Answer:
    """Repeat a step that records a result, so that finished work is not lost (TSK-9).

    The token fences the step: if the lease has expired and another worker has claimed the run, the late
    record changes nothing. The same holds if the connection broke during the commit, and the first try took
    effect.
    """
    waited = 0.0
    while True:
        try:
            return step()
        except (DatabaseError, InterfaceError) as error:
            # Inside a transaction there is nothing to repeat: its writes are rolled back.
            if not is_database_away(error) or connection.in_atomic_block or waited >= max_wait:
                raise
            emit(Event.RESULT_DELAYED, waited=waited, error=type(error).__name__)
        connection.close()  # the next try opens a new connection
        sleep(DATABASE_RETRY_PAUSE)
        waited += DATABASE_RETRY_PAUSE


def _attempt(item: Claim, bundle: ClaimedBundle, slot: Slot, clock: Clock) -> None:
    function = registry.function(item.run.function)
    if function is not None and function.transactional:
        # It commits with its own report, not with the bundle's.
        settled = _attempt_transactional(item, function, slot, clock)
        bundle.failed += settled.failed
        follow_up(settled, clock=clock)
        return
    began = time.perf_counter()
    with user_code():
        result = perform(item, function, slot)
    bundle.add_result(item, result)
    if result.ending is not Ending.SUCCESS and bundle.has_waiting:
        # Only this process knows it: its retry must not wait for the functions of the other runs.
        follow_up(retry_while_database_is_away(bundle.report), clock=clock)
    # Dispatch never asks for the pace of a task that opted out of bundles.
    if item.run.policy.get("bundle"):
        paces.note(item.run.task_id, time.perf_counter() - began)


def _attempt_transactional(item: Claim, function: TaskFunction, slot: Slot, clock: Clock) -> Settled:
    """Commit the function's effects and its success together, or neither (EXE-6)."""
    try:
        with user_code(), transaction.atomic():
            result = perform(item, function, slot)
            _require_success(result)
            ended = end_runs([report_of_claim(item, result)], now=clock(), strict=True)
    except _RolledBackError as failed:
        result = failed.result
    except (DatabaseError, InterfaceError) as error:
        # The function swallowed a database error, or the commit was refused: its effects are rolled back.
        result = result_of_error(error)
    except FencedError:
        emit(Event.ATTEMPT_FENCED, run=format_id("run", item.run.id))
        return Settled(fenced=1)
    else:
        return retry_while_database_is_away(lambda: take_next_steps(ended, now=clock()))
    return retry_while_database_is_away(lambda: report([report_of_claim(item, result)], now=clock()))


def _require_success(result: Result) -> None:
    if result.ending is not Ending.SUCCESS:
        raise _RolledBackError(result)


class _RolledBackError(Exception):
    """Carries a failed result out of the transaction that it rolls back."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(result.error)
