"""Run ids of one message → claimed, performed one after the other, reported; then what follows is sent on.

One message carries one run or a bundle of short ones. A bundle is claimed at once and reported at
once; a process that dies costs an attempt to those of its runs that had begun, and to no other.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from uuid import UUID

from django.db import DatabaseError, InterfaceError, transaction

from execution.attempt import ended, perform
from execution.attending import attendance, attending
from execution.bundle import Bundle, Clock, Stopwatch
from execution.bundling import BUDGET
from execution.claim import Claim, claim
from execution.dispatch import dispatch
from execution.hooks import ask_for_hooks, completion_hooks, start_hooks
from execution.limits import limits
from execution.outcome import Ending, Result
from execution.pace import paces
from execution.patience import patiently
from execution.report import FencedError, Report, report
from execution.settle import Settled, settle
from execution.watcher import watcher
from jobs.clock import steady_now
from jobs.events import Event, emit
from jobs.registry import registry
from jobs.secrecy import kept_secret
from occurrences.models import Occurrence

REAL: Stopwatch = time.monotonic


def work(
    run_ids: Sequence[UUID],
    *,
    worker: str,
    clock: Clock = steady_now,
    stopwatch: Stopwatch = REAL,
) -> int:
    """The number of runs this call attempted. `stopwatch` measures the time budget of a bundle; with
    another than the real one nobody watches while a function runs, for no time passes then."""
    claimed = claim(run_ids, worker=worker, now=clock(), lease=limits().lease)
    bundle = Bundle(claimed.claims, clock=clock, stopwatch=stopwatch)
    attempted = []
    with attendance():
        with _relief(bundle, clock) if claimed.claims[1:] and stopwatch is REAL else nullcontext():
            while item := bundle.next():
                if item.run.occurrence_id in claimed.started and registry.greets(item.occurrence.job.name):
                    start_hooks([item.run.occurrence_id])
                with kept_secret(item.occurrence.args, item.occurrence.config):
                    _attempt(item, bundle, clock)
                bundle.ended()
                attempted.append(item.run.task_id)
        settled = patiently(bundle.report)
    follow_up(settled, clock=clock)
    paces.write(attempted, now=clock())
    return len(attempted)


def settle_now(occurrence_ids: Sequence[UUID], *, clock: Clock = steady_now) -> int:
    """Settle, and call the hooks still owed to occurrences that were settled before.

    Mostly a chord's callback, which comes when the last report has done all of it.
    """
    if not Occurrence.objects.unsettled().filter(id__in=occurrence_ids).exists():
        return 0
    settled = settle(occurrence_ids, now=clock())
    follow_up(settled, clock=clock)
    return len(settled.finished) + completion_hooks(occurrence_ids, now=clock())


def follow_up(settled: Settled, *, clock: Clock) -> None:
    """After the commit: send what was released, call the hooks of what is finished."""
    dispatch(settled.released, now=clock())
    completion_hooks(settled.owing, now=clock())


def _relief(bundle: Bundle, clock: Clock) -> AbstractContextManager[None]:
    """A suddenly slow function must delay nobody else of its bundle."""

    def relieve() -> float | None:
        if (left := bundle.left()) > 0:
            return left
        settled = bundle.relieve()
        dispatch(settled.released, now=clock())
        # Hooks are user code, and the watcher keeps other attempts' leases: a worker will call them.
        ask_for_hooks(settled.owing)
        return None

    return watcher.after(BUDGET, relieve)


def _attempt(item: Claim, bundle: Bundle, clock: Clock) -> None:
    function = registry.function(item.run.task.function)
    if function is not None and function.transactional:
        # It has committed with its own report, so nothing of it waits for the bundle's.
        follow_up(_transactional(item, clock), clock=clock)
    else:
        began = time.perf_counter()
        with attending(item) as line:
            result = perform(item, line)
        bundle.done(_report(item, result))
        # What must not share a message needs no pace.
        if item.run.policy.get("bundle"):
            paces.note(item.run.task_id, time.perf_counter() - began)


def _transactional(item: Claim, clock: Clock) -> Settled:
    """The body's effects and its success record commit together, or not at all (EXE-6)."""
    try:
        with transaction.atomic():
            with attending(item) as line:
                result = perform(item, line)
            _demand_success(result)
            return report([_report(item, result)], now=clock(), strict=True)
    except _RolledBackError as failed:
        result = failed.result
    except (DatabaseError, InterfaceError) as error:
        # The body swallowed a database error, or the commit was refused: nothing of it took effect.
        result = ended(error)
    except FencedError:
        emit(Event.ATTEMPT_FENCED, run=item.run.shown_id)
        return Settled(fenced=1)
    return patiently(lambda: report([_report(item, result)], now=clock()))


def _demand_success(result: Result) -> None:
    if result.ending is not Ending.SUCCESS:
        raise _RolledBackError(result)


def _report(item: Claim, result: Result) -> Report:
    return Report(item.run.id, item.run.occurrence_id, item.token, result, item)


class _RolledBackError(Exception):
    """Takes a failed result out of the transaction that it rolls back."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(result.error)
