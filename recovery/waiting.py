"""Waiting occurrences that could start → admitted: whoever freed their slot died too soon."""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from occurrences.models import Occurrence, OccurrenceQuerySet
from occurrences.pools import with_room
from occurrences.waiting import BATCH, admit_waiting, heads


def admit_stranded(now: datetime, *, limit: int = BATCH) -> tuple[UUID, ...]:
    """Only pools with room: a full one with a long line would take up the whole batch, for nobody."""
    pools = _open_lines()
    if not pools:
        return ()
    with transaction.atomic():
        return admit_waiting(pools=pools, now=now, limit=limit)


def stranded() -> OccurrenceQuerySet:
    """Those nothing keeps from starting, as far as a look can tell."""
    return heads(Q(pool__in=_open_lines()))


def _open_lines() -> set[str]:
    lines = set(Occurrence.objects.waiting().order_by().values_list("pool", flat=True).distinct())
    return with_room(lines) if lines else set()
