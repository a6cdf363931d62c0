"""Occurrences past their execution_timeout → failed_stale, their runs canceled, their slot freed (REC-3)."""

from datetime import datetime

from django.db import transaction

from execution.settle import Settled, close, lock, runs_of
from jobs.events import Event, emit
from occurrences import transitions
from occurrences.models import Occurrence
from occurrences.states import RUN_OPEN, OccurrenceState, RunState

BATCH = 200
REASON = "execution timeout"


def end_overdue(now: datetime, *, limit: int = BATCH) -> Settled:
    overdue = Occurrence.objects.overdue(now).order_by("deadline_at", "id")
    ids = list(overdue.values_list("id", flat=True)[:limit])
    if not ids:
        return Settled()
    with transaction.atomic():
        # Locked first, then looked at again: a worker may have settled it in between.
        rows = [row for row in lock(ids) if row.deadline_at and row.deadline_at <= now]
        runs = runs_of(rows)
        open_ids = [run.id for run in runs if run.state in RUN_OPEN]
        transitions.cancel(open_ids, reason=REASON, now=now)
        for run in runs:
            if run.id in open_ids:
                transitions.mirror(run, RunState.CANCELED, now=now, reason=REASON)
        for row in rows:
            emit(Event.OCCURRENCE_STALE, job=row.job.name, occurrence=row.shown_id)
        groups = [(row, [run for run in runs if run.occurrence_id == row.id]) for row in rows]
        return close([(row, group, OccurrenceState.FAILED_STALE) for row, group in groups], now=now)
