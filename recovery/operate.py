"""An operator's wish about occurrences → canceled or skipped, with an audit entry (EXE-10, OCC-9)."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import transaction

from execution.cancel import cancel
from execution.dispatch import dispatch
from occurrences import transitions
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState
from recovery.audit import Asked, note
from recovery.models import Action
from recovery.replay import Progress, batches

REASON = "operator"


def cancel_occurrences(
    ids: Collection[UUID], *, asked: Asked, now: datetime, progress: Progress = lambda _count: None
) -> int:
    """What is active ends; whoever waited for its slot starts."""
    total = 0
    for batch in batches(sorted(ids)):
        with transaction.atomic():
            ended = cancel(batch, reason=REASON, now=now)
            _note(Action.CANCEL, asked, [*ended.finished], now)
        dispatch(ended.released, now=now)
        total += len(ended.finished)
        progress(len(batch))
    return total


def skip_occurrences(
    ids: Collection[UUID], *, asked: Asked, now: datetime, progress: Progress = lambda _count: None
) -> int:
    """What is planned or waits is not run; the schedule goes on."""
    total = 0
    for batch in batches(sorted(ids)):
        with transaction.atomic():
            waiting = _waiting(batch)
            total += transitions.skip(waiting, reason=REASON, now=now)
            _note(Action.SKIP, asked, waiting, now)
        progress(len(batch))
    return total


def _waiting(ids: Collection[UUID]) -> list[UUID]:
    """Held: what is skipped is what the audit names, whoever fires at this moment."""
    rows = Occurrence.objects.filter(id__any=ids, state__in=(OccurrenceState.PENDING, OccurrenceState.QUEUED))
    return list(rows.order_by("id").select_for_update(no_key=True).values_list("id", flat=True))


def _note(action: Action, asked: Asked, ids: Collection[UUID], now: datetime) -> None:
    if ids:
        note(action, asked, count=len(ids), now=now, details={"occurrences": [str(id_) for id_ in ids]})
