"""Run ids of one message → claimed, performed, reported; then what follows from it is sent on."""

from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Event as ThreadEvent
from uuid import UUID

from django.db import DatabaseError, transaction

from execution.attempt import ended, perform
from execution.claim import Claim, claim
from execution.dispatch import dispatch
from execution.heartbeat import heartbeat
from execution.hooks import completion_hooks, start_hooks
from execution.outcome import Ending, Result
from execution.report import FencedError, Report, report
from execution.settle import Settled, settle
from jobs.clock import database_now
from jobs.events import Event, emit
from jobs.registry import registry

Clock = Callable[[], datetime]


def work(run_ids: Sequence[UUID], *, worker: str, clock: Clock = database_now) -> int:
    """The number of runs this call attempted."""
    claimed = claim(run_ids, worker=worker, now=clock())
    start_hooks(claimed.started)
    for item in claimed.claims:
        follow_up(_attempted(item, clock), clock=clock)
    return len(claimed.claims)


def settle_now(occurrence_ids: Sequence[UUID], *, clock: Clock = database_now) -> int:
    """Settle, and call the hooks still owed to occurrences that were settled before."""
    settled = settle(occurrence_ids, now=clock())
    follow_up(settled, clock=clock)
    return len(settled.finished) + completion_hooks(occurrence_ids, now=clock())


def follow_up(settled: Settled, *, clock: Clock) -> None:
    """After the commit: send what was released, call the hooks of what is finished."""
    dispatch(settled.released, now=clock())
    completion_hooks(settled.finished, now=clock())


def _attempted(item: Claim, clock: Clock) -> Settled:
    function = registry.function(item.run.task.function)
    with heartbeat(item, clock=clock) as stop:
        if function is not None and function.transactional:
            return _transactional(item, stop, clock)
        result = perform(item, stop)
        return report([_report(item, result)], now=clock())


def _transactional(item: Claim, stop: ThreadEvent, clock: Clock) -> Settled:
    """The body's effects and its success record commit together, or not at all (EXE-6)."""
    try:
        with transaction.atomic():
            result = perform(item, stop)
            _demand_success(result)
            return report([_report(item, result)], now=clock(), strict=True)
    except _RolledBackError as failed:
        return report([_report(item, failed.result)], now=clock())
    except DatabaseError as error:
        # The body swallowed a database error, or the commit was refused: nothing of it took effect.
        return report([_report(item, ended(error))], now=clock())
    except FencedError:
        emit(Event.ATTEMPT_FENCED, run=item.run.shown_id)
        return Settled(fenced=1)


def _demand_success(result: Result) -> None:
    if result.ending is not Ending.SUCCESS:
        raise _RolledBackError(result)


def _report(item: Claim, result: Result) -> Report:
    return Report(item.run.id, item.run.occurrence_id, item.token, result)


class _RolledBackError(Exception):
    """Takes a failed result out of the transaction that it rolls back."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(result.error)
