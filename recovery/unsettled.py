"""Occurrences whose runs are over but that nobody settled, and hooks still owed → asked of a worker (REC-3).

Hooks are user code, so they run in workers: the sweeper only sends the request, the same message a
chord's callback is.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from execution.dispatch import BROKER_ERRORS, Dispatched
from execution.messages import settle_message
from jobs.events import Event, emit
from occurrences import transitions
from occurrences.models import Occurrence, OccurrenceQuerySet, TaskRun
from occurrences.states import RUN_OPEN

BATCH = 200
PATIENCE = timedelta(seconds=30)


def ask_to_settle(now: datetime, *, just_ended: Collection[UUID] = (), limit: int = BATCH) -> Dispatched:
    """`just_ended` were ended by this very sweep: their hooks need not wait."""
    owed = [*_ids(unsettled(now), limit), *_ids(unfinalized(now, just_ended), limit)]
    mine = _asking(owed, now) if owed else []
    sent = 0
    try:
        for id_ in mine:
            settle_message(id_).apply_async()
            sent += 1
    except BROKER_ERRORS as error:
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(mine) - sent, error=type(error).__name__)
    return Dispatched(sent=sent, failed=len(mine) - sent)


def _asking(owed: Collection[UUID], now: datetime) -> list[UUID]:
    """Marked before their messages: with nobody to take those, the next sweeps must not pile up more.

    What another sweep asks about at this moment, or a worker settles, is left to it.
    """
    with transaction.atomic():
        rows = Occurrence.objects.filter(_unasked(now), id__in=owed).order_by("id")
        mine = list(rows.select_for_update(skip_locked=True, no_key=True).values_list("id", flat=True))
        transitions.ask(mine, now=now)
    return mine


def unsettled(now: datetime) -> OccurrenceQuerySet:
    """Active, and no run of it is released and open: the next step was never taken."""
    moving = TaskRun.objects.filter(occurrence=OuterRef("pk"), state__in=RUN_OPEN, available_at__isnull=False)
    rows = Occurrence.objects.active().filter(_unasked(now), ~Exists(moving), fired_at__lte=now - PATIENCE)
    return rows.order_by("fired_at")


def unfinalized(now: datetime, just_ended: Collection[UUID] = ()) -> OccurrenceQuerySet:
    overdue = Q(finished_at__lte=now - PATIENCE) | Q(id__in=just_ended)
    return Occurrence.objects.unfinalized().filter(_unasked(now), overdue).order_by("finished_at")


def _ids(rows: OccurrenceQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])


def _unasked(now: datetime) -> Q:
    return Q(asked_at=None) | Q(asked_at__lte=now - PATIENCE)
