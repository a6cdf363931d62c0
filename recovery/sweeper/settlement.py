"""Ask workers to settle occurrences whose runs have ended, and to call hooks that were not called (REC-3).

Hooks are user code, so they run in workers. The sweeper only sends the same message as a chord's callback.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from punctual.execution.broker.dispatch import Dispatched
from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.execution.broker.messages import settle_message
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import RUN_OPEN

BATCH = 200
SETTLE_GRACE = timedelta(seconds=30)


def request_settlement(now: datetime, *, just_ended: Collection[UUID] = (), limit: int = BATCH) -> Dispatched:
    """Send settle messages; those in `just_ended` were ended by this sweep and skip the grace period."""
    ids = [*_ids(unsettled_occurrences(now), limit), *_ids(unfinalized_occurrences(now, just_ended), limit)]
    requested = _mark_requested(ids, now) if ids else []
    sent = 0
    try:
        for id_ in requested:
            settle_message(id_).apply_async()
            sent += 1
    except BROKER_ERRORS as error:
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(requested) - sent, error=type(error).__name__)
    return Dispatched(sent=sent, failed=len(requested) - sent)


def _mark_requested(ids: Collection[UUID], now: datetime) -> list[UUID]:
    """Record the requests before sending them, so that sweeps do not pile up messages while no worker runs.

    Rows that another sweep or a settling worker has locked are skipped: it handles them.
    """
    with transaction.atomic():
        rows = Occurrence.objects.filter(_not_requested(now), id__in=ids).order_by("id")
        locked = list(rows.select_for_update(skip_locked=True, no_key=True).values_list("id", flat=True))
        transitions.note_settle_request(locked, now=now)
    return locked


def unsettled_occurrences(now: datetime) -> OccurrenceQuerySet:
    """Active occurrences without a run that is released and open: the next step was never taken."""
    moving = TaskRun.objects.filter(occurrence=OuterRef("pk"), state__in=RUN_OPEN, available_at__isnull=False)
    stuck = Occurrence.objects.active().filter(~Exists(moving), fired_at__lte=now - SETTLE_GRACE)
    return stuck.filter(_not_requested(now)).order_by("fired_at")


def unfinalized_occurrences(now: datetime, just_ended: Collection[UUID] = ()) -> OccurrenceQuerySet:
    """Finished occurrences whose hooks have not been called."""
    overdue = Q(finished_at__lte=now - SETTLE_GRACE) | Q(id__in=just_ended)
    return Occurrence.objects.unfinalized().filter(_not_requested(now), overdue).order_by("finished_at")


def _ids(rows: OccurrenceQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])


def _not_requested(now: datetime) -> Q:
    return Q(settle_requested_at=None) | Q(settle_requested_at__lte=now - SETTLE_GRACE)
