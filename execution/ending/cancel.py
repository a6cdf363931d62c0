"""Cancel occurrences or single runs, free their slots, and write their reports (EXE-10).

Clean-up runs are those of tasks with the failure strategy `continue` of their own (EXE-2). After a cancel by
an operator and after the execution_timeout they still run: the occurrence stays active, marked with how it
will end, until they are over. A second cancel, or another execution_timeout, ends them as well.

A run that has not started is never started. The function of a run that has started is notified within a
second: the supervisor of its worker sees that the claim is gone.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.hook_calls import request_hooks
from punctual.execution.ending.settle import Settled, canceled_facts, close, combine, roll_up
from punctual.jobs.config.choices import FailureStrategy
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import OccurrenceFacts, RunFacts
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import OCCURRENCE_OPEN, OccurrenceState


def cancel(
    occurrence_ids: Collection[UUID],
    *,
    reason: str,
    now: datetime,
    outcome: OccurrenceState = OccurrenceState.CANCELED,
    wait: bool = True,
    clean_up: bool = False,
) -> Settled:
    """End the occurrences that are open; one that ended meanwhile keeps its outcome.

    `wait=False` leaves out occurrences of which another session holds a row. `clean_up` lets clean-up runs of
    occurrences that have started go on.
    """
    lock = transitions.lock_occurrences if wait else transitions.lock_free_occurrences
    with transaction.atomic():
        rows = lock(occurrence_ids, states=OCCURRENCE_OPEN)
        runs = transitions.read_runs([row.id for row in rows])
        spared = {id_ for row in rows for id_ in _clean_up_runs(row, runs)} if clean_up else set()
        cleaning = {run.occurrence_id for run in runs if run.id in spared}
        runs = _cancel(runs, {run.id for run in runs} - spared, reason=reason, now=now)
        closed = [
            (
                row,
                [run for run in runs if run.occurrence_id == row.id],
                OccurrenceState(row.ending or outcome),
            )
            for row in rows
            if row.id not in cleaning
        ]
        ended = close(closed, now=now, reason=reason, states=OCCURRENCE_OPEN)
        if not cleaning:
            return ended
        transitions.mark_ending(cleaning, outcome, reason=reason, now=now)
        marked = [row._replace(ending=outcome, reason=reason) for row in rows if row.id in cleaning]
        left = roll_up(marked, [run for run in runs if run.occurrence_id in cleaning], now=now)
    return replace(combine(ended, left), cleaning=tuple(cleaning))


def _clean_up_runs(row: OccurrenceFacts, runs: Sequence[RunFacts]) -> list[UUID]:
    """None if nothing has started, if only clean-up is left, or if all tasks of the job are alike."""
    if row.started_at is None or row.ending or row.config.get("failure_strategy") == FailureStrategy.CONTINUE:
        return []
    left = [run for run in runs if run.occurrence_id == row.id and run.open]
    tolerant = [run.id for run in left if run.tolerant]
    return tolerant if len(tolerant) < len(left) else []


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
    """Cancel, then send the runs that were released. Return the number of occurrences that end."""
    steps = [
        cancel(occurrences, reason=reason, now=now, clean_up=True) if occurrences else Settled(),
        cancel_runs(runs, reason=reason, now=now) if runs else Settled(),
    ]
    finished = [id_ for step in steps for id_ in step.finished]
    dispatch([id_ for step in steps for id_ in step.released], now=now)
    request_hooks(finished)
    return len(finished) + sum(len(step.cleaning) for step in steps)


def _cancel(
    runs: Sequence[RunFacts], chosen: Collection[UUID], *, reason: str, now: datetime
) -> list[RunFacts]:
    """Cancel the chosen runs that are open; return all runs as they are afterwards."""
    canceled = {run.id for run in runs if run.open and run.id in chosen}
    transitions.cancel(canceled, reason=reason, now=now)
    return [canceled_facts(run, reason, now) if run.id in canceled else run for run in runs]
