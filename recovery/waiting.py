"""Waiting occurrences that could start → admitted: whoever freed their slot died too soon."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from occurrences.models import Occurrence
from occurrences.pools import with_room
from occurrences.waiting import BATCH, admit_waiting


def admit_stranded(now: datetime, *, limit: int = BATCH) -> tuple[UUID, ...]:
    """Only pools with room: a full one with a long line would take up the whole batch, for nobody."""
    lines = set(Occurrence.objects.waiting().order_by().values_list("pool", flat=True).distinct())
    if not lines or not (pools := with_room(lines)):
        return ()
    with transaction.atomic():
        return admit_waiting(pools=pools, now=now, limit=limit)
