"""End occurrences past a timeout as failed_stale and cancel their runs.

The `execution_timeout` belongs to the occurrence (REC-3); the `dispatch_timeout` to a run that no worker
has claimed yet (LIM-4).
"""

from datetime import datetime

from django.db import transaction

from punctual.execution.ending.cancel import cancel
from punctual.execution.ending.settle import Settled
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import format_id
from punctual.occurrences import transitions
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, Reason

BATCH = 200


def end_overdue(now: datetime, *, limit: int = BATCH) -> Settled:
    """No second look under a lock is needed: a deadline moves only if the occurrence waited for a slot before
    it had passed."""
    overdue = Occurrence.objects.overdue(now).order_by("deadline_at", "id")
    ids = list(overdue.values_list("id", flat=True)[:limit])
    if not ids:
        return Settled()
    outcome = OccurrenceState.FAILED_STALE
    ended = cancel(ids, reason=Reason.EXECUTION_TIMEOUT, now=now, outcome=outcome, wait=False, clean_up=True)
    _emit_stale(ended)
    return ended


def end_never_claimed(now: datetime, *, limit: int = BATCH) -> Settled:
    """The runs are read again under the locks: a worker may claim one at this moment."""
    owners = set(TaskRun.objects.never_claimed(now).values_list("occurrence_id", flat=True)[:limit])
    if not owners:
        return Settled()
    outcome = OccurrenceState.FAILED_STALE
    with transaction.atomic():
        locked = [row.id for row in transitions.lock_free_occurrences(owners)]
        unclaimed = TaskRun.objects.never_claimed(now).filter(occurrence__in=locked)
        ids = set(unclaimed.values_list("occurrence_id", flat=True))
        ended = cancel(ids, reason=Reason.NEVER_CLAIMED, now=now, outcome=outcome, wait=False)
    _emit_stale(ended)
    return ended


def _emit_stale(ended: Settled) -> None:
    for id_ in ended.finished:
        emit(Event.OCCURRENCE_STALE, occurrence=format_id("occ", id_))
