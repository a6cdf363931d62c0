"""End occurrences past their execution_timeout as failed_stale and cancel their runs (REC-3)."""

from datetime import datetime

from punctual.execution.ending.cancel import cancel
from punctual.execution.ending.settle import Settled
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import format_id
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import OccurrenceState, Reason

BATCH = 200


def end_overdue(now: datetime, *, limit: int = BATCH) -> Settled:
    """No second look under a lock is needed: a deadline is set once, at the first claim, and never moves."""
    overdue = Occurrence.objects.overdue(now).order_by("deadline_at", "id")
    ids = list(overdue.values_list("id", flat=True)[:limit])
    if not ids:
        return Settled()
    outcome = OccurrenceState.FAILED_STALE
    ended = cancel(ids, reason=Reason.EXECUTION_TIMEOUT, now=now, outcome=outcome, wait=False)
    for id_ in ended.finished:
        emit(Event.OCCURRENCE_STALE, occurrence=format_id("occ", id_))
    return ended
