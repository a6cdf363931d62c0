"""Cancel occurrences or single runs, free their slots, and write their reports (EXE-10).

A run that has not started is never started. The function of a run that has started is notified within a
second: the supervisor of its worker sees that the claim is gone.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.hook_calls import request_hooks
from punctual.execution.ending.settle import Settled, canceled_facts, close, roll_up
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import RunFacts
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import OCCURRENCE_OPEN, OccurrenceState


def cancel(
    occurrence_ids: Collection[UUID],
    *,
    reason: str,
    now: datetime,
    outcome: OccurrenceState = OccurrenceState.CANCELED,
    wait: bool = True,
) -> Settled:
    """End the occurrences that are open; one that ended meanwhile keeps its outcome.

    `wait=False` leaves out occurrences of which another session holds a row.
    """
    lock = transitions.lock_occurrences if wait else transitions.lock_free_occurrences
    with transaction.atomic():
        rows = lock(occurrence_ids, states=OCCURRENCE_OPEN)
        runs = _cancel(transitions.read_runs([row.id for row in rows]), None, reason=reason, now=now)
        closed = [(row, [run for run in runs if run.occurrence_id == row.id], outcome) for row in rows]
        return close(closed, now=now, reason=reason, states=OCCURRENCE_OPEN)


def cancel_runs(run_ids: Collection[UUID], *, reason: str, now: datetime) -> Settled:
    """Cancel single runs; their occurrences go on with the other runs."""
    owners = TaskRun.objects.filter(id__in=run_ids).values_list("occurrence_id", flat=True)
    with transaction.atomic():
        rows = transitions.lock_occurrences(set(owners))
        runs = transitions.read_runs([row.id for row in rows])
        return roll_up(rows, _cancel(runs, run_ids, reason=reason, now=now), now=now)


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


def _cancel(
    runs: Sequence[RunFacts], chosen: Collection[UUID] | None, *, reason: str, now: datetime
) -> list[RunFacts]:
    """Cancel open runs, all or the chosen ones; return all runs as they are afterwards."""
    canceled = {run.id for run in runs if run.open and (chosen is None or run.id in chosen)}
    transitions.cancel(canceled, reason=reason, now=now)
    return [canceled_facts(run, reason, now) if run.id in canceled else run for run in runs]
