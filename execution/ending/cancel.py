"""Cancel occurrences or single runs, free their slots, and write their reports (EXE-10).

A run that has not started is never started. The function of a run that has started is notified within a
second: the supervisor of its worker sees that the claim is gone.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.hooks import request_hooks
from punctual.execution.ending.settle import Settled, close, lock_occurrences, read_runs, roll_up
from punctual.occurrences import transitions
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import OCCURRENCE_OPEN, RUN_OPEN, OccurrenceState, RunState


def cancel(
    occurrence_ids: Collection[UUID],
    *,
    reason: str,
    now: datetime,
    outcome: OccurrenceState = OccurrenceState.CANCELED,
) -> Settled:
    """End the occurrences that are open; one that ended meanwhile keeps its outcome."""
    with transaction.atomic():
        rows = lock_occurrences(occurrence_ids, states=OCCURRENCE_OPEN)
        runs = read_runs(rows)
        _cancel(runs, reason=reason, now=now)
        return close(
            [(row, [run for run in runs if run.occurrence_id == row.id], outcome) for row in rows],
            now=now,
            reason=reason,
        )


def cancel_runs(run_ids: Collection[UUID], *, reason: str, now: datetime) -> Settled:
    """Cancel single runs; their occurrences go on with the other runs."""
    owners = TaskRun.objects.filter(id__in=run_ids).values_list("occurrence_id", flat=True)
    with transaction.atomic():
        rows = lock_occurrences(set(owners))
        runs = read_runs(rows)
        _cancel([run for run in runs if run.id in run_ids], reason=reason, now=now)
        return roll_up(rows, runs, now=now)


def cancel_now(
    *, occurrences: Collection[UUID] = (), runs: Collection[UUID] = (), reason: str, now: datetime
) -> int:
    """Cancel, then send the runs that were released. Return the number of occurrences that ended."""
    steps = [
        cancel(occurrences, reason=reason, now=now) if occurrences else Settled(),
        cancel_runs(runs, reason=reason, now=now) if runs else Settled(),
    ]
    finished = [id_ for step in steps for id_ in step.finished]
    dispatch([id_ for step in steps for id_ in step.released], now=now)
    request_hooks(finished)
    return len(finished)


def _cancel(runs: Iterable[TaskRun], *, reason: str, now: datetime) -> None:
    open_runs = [run for run in runs if run.state in RUN_OPEN]
    transitions.cancel([run.id for run in open_runs], reason=reason, now=now)
    for run in open_runs:
        transitions.mirror(run, RunState.CANCELED, now=now, reason=reason)
