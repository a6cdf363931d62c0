"""Occurrence or run ids → canceled: runs told, slot freed, report written (EXE-10).

Reaches what waits and what runs: a run that has not started never does, and the function of one that has
is told by its worker's supervisor within a second, for it looks whether its claim is still its own.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction

from execution.dispatch import dispatch
from execution.hooks import ask_for_hooks
from execution.settle import Settled, close, lock, roll_up, runs_of
from occurrences import transitions
from occurrences.models import TaskRun
from occurrences.states import OCCURRENCE_OPEN, RUN_OPEN, OccurrenceState, RunState


def cancel(
    occurrence_ids: Collection[UUID],
    *,
    reason: str,
    now: datetime,
    outcome: OccurrenceState = OccurrenceState.CANCELED,
) -> Settled:
    """Ends what is open; what ended meanwhile stays as it ended."""
    with transaction.atomic():
        rows = lock(occurrence_ids, states=OCCURRENCE_OPEN)
        runs = runs_of(rows)
        _cancel(runs, reason=reason, now=now)
        return close(
            [(row, [run for run in runs if run.occurrence_id == row.id], outcome) for row in rows],
            now=now,
            reason=reason,
        )


def cancel_runs(run_ids: Collection[UUID], *, reason: str, now: datetime) -> Settled:
    """Single steps; their occurrences go on with what is left of them."""
    owners = TaskRun.objects.filter(id__in=run_ids).values_list("occurrence_id", flat=True)
    with transaction.atomic():
        rows = lock(set(owners))
        runs = runs_of(rows)
        _cancel([run for run in runs if run.id in run_ids], reason=reason, now=now)
        return roll_up(rows, runs, now=now)


def cancel_now(
    *, occurrences: Collection[UUID] = (), runs: Collection[UUID] = (), reason: str, now: datetime
) -> int:
    """For doors: cancel, then send on what that set free. The number of occurrences that ended with it."""
    steps = [
        cancel(occurrences, reason=reason, now=now) if occurrences else Settled(),
        cancel_runs(runs, reason=reason, now=now) if runs else Settled(),
    ]
    finished = [id_ for step in steps for id_ in step.finished]
    dispatch([id_ for step in steps for id_ in step.released], now=now)
    ask_for_hooks(finished)
    return len(finished)


def _cancel(runs: Iterable[TaskRun], *, reason: str, now: datetime) -> None:
    open_runs = [run for run in runs if run.state in RUN_OPEN]
    transitions.cancel([run.id for run in open_runs], reason=reason, now=now)
    for run in open_runs:
        transitions.mirror(run, RunState.CANCELED, now=now, reason=reason)
