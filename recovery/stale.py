"""Occurrences past their execution_timeout → failed_stale, their runs canceled, their slot freed (REC-3)."""

from datetime import datetime

from execution.cancel import cancel
from execution.settle import Settled
from jobs.events import Event, emit
from jobs.ids import shown
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState

BATCH = 200
REASON = "execution timeout"


def end_overdue(now: datetime, *, limit: int = BATCH) -> Settled:
    """A deadline is set once, at the first claim: what was overdue a moment ago still is."""
    overdue = Occurrence.objects.overdue(now).order_by("deadline_at", "id")
    ids = list(overdue.values_list("id", flat=True)[:limit])
    if not ids:
        return Settled()
    ended = cancel(ids, reason=REASON, now=now, outcome=OccurrenceState.FAILED_STALE)
    for id_ in ended.finished:
        emit(Event.OCCURRENCE_STALE, occurrence=shown("occ", id_))
    return ended
