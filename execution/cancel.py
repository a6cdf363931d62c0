"""Occurrence ids → canceled: runs told, slot freed, report written (EXE-10)."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import transaction

from execution.settle import Settled, close, lock, runs_of
from occurrences import transitions
from occurrences.states import RUN_OPEN, OccurrenceState, RunState


def cancel(
    occurrence_ids: Collection[UUID],
    *,
    reason: str,
    now: datetime,
    outcome: OccurrenceState = OccurrenceState.CANCELED,
) -> Settled:
    """Ends what is active; what ended meanwhile stays as it ended."""
    with transaction.atomic():
        rows = lock(occurrence_ids)
        runs = runs_of(rows)
        open_ids = {run.id for run in runs if run.state in RUN_OPEN}
        transitions.cancel(open_ids, reason=reason, now=now)
        for run in runs:
            if run.id in open_ids:
                transitions.mirror(run, RunState.CANCELED, now=now, reason=reason)
        return close(
            [(row, [run for run in runs if run.occurrence_id == row.id], outcome) for row in rows],
            now=now,
            reason=reason,
        )
