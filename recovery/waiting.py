"""Waiting occurrences that could start → admitted: whoever freed their slot died too soon."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from occurrences.models import Occurrence
from occurrences.waiting import BATCH, admit_waiting


def admit_stranded(now: datetime, *, limit: int = BATCH) -> tuple[UUID, ...]:
    """Every pool with a line is looked at; a pool that is full costs one count."""
    lines = Occurrence.objects.waiting().order_by().values_list("pool", flat=True).distinct()
    if not (pools := sorted(lines)):
        return ()
    with transaction.atomic():
        return admit_waiting(pools=pools, now=now, limit=limit)
