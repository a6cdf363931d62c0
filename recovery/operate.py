"""An operator's wish about occurrences → canceled or skipped, with an audit entry (EXE-10, OCC-9)."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from execution.cancel import cancel
from execution.dispatch import dispatch
from occurrences import transitions
from occurrences.models import Occurrence
from occurrences.states import OccurrenceState
from recovery.audit import Asked, audited
from recovery.models import Action
from recovery.replay import Progress, batches

REASON = "operator"
Told = Mapping[str, Any] | None


def cancel_occurrences(
    ids: Collection[UUID],
    *,
    asked: Asked,
    now: datetime,
    told: Told = None,
    progress: Progress = lambda _count: None,
) -> int:
    """What is active ends; whoever waited for its slot starts. `told`: the filter that chose them."""
    with audited(Action.CANCEL, asked, now=now, details=told or _named(ids)) as entry:
        for batch in batches(sorted(ids)):
            with transaction.atomic():
                ended = cancel(batch, reason=REASON, now=now)
                entry.add(len(ended.finished))
            dispatch(ended.released, now=now)
            progress(len(batch))
    return entry.count


def skip_occurrences(
    ids: Collection[UUID],
    *,
    asked: Asked,
    now: datetime,
    told: Told = None,
    progress: Progress = lambda _count: None,
) -> int:
    """What is planned or waits is not run; the schedule goes on."""
    with audited(Action.SKIP, asked, now=now, details=told or _named(ids)) as entry:
        for batch in batches(sorted(ids)):
            with transaction.atomic():
                entry.add(transitions.skip(_waiting(batch), reason=REASON, now=now))
            progress(len(batch))
    return entry.count


def _waiting(ids: Collection[UUID]) -> list[UUID]:
    """Held: what is skipped is what the audit counts, whoever fires at this moment."""
    rows = Occurrence.objects.filter(id__any=ids, state__in=(OccurrenceState.PENDING, OccurrenceState.QUEUED))
    return list(rows.order_by("id").select_for_update(no_key=True).values_list("id", flat=True))


def _named(ids: Iterable[UUID]) -> dict[str, Any]:
    return {"occurrences": [str(id_) for id_ in sorted(ids)]}
