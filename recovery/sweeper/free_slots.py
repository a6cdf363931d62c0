"""Admit waiting occurrences whose pool has room.

Normally the process that frees a slot admits the next occurrence. If it dies in between, the occurrence is
stranded until a sweep admits it.
"""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from punctual.occurrences.admission.capacity import pools_with_free_slots
from punctual.occurrences.admission.waiting import BATCH, admit_waiting, first_in_line
from punctual.occurrences.models import Occurrence
from punctual.occurrences.querysets import OccurrenceQuerySet


def admit_stranded(now: datetime, *, limit: int = BATCH) -> tuple[UUID, ...]:
    """Look only at pools with room: a full pool with a long line would use up the batch in vain."""
    pools = _pools_with_free_slots()
    if not pools:
        return ()
    with transaction.atomic():
        return admit_waiting(pools=pools, now=now, limit=limit)


def stranded_occurrences() -> OccurrenceQuerySet:
    """Waiting occurrences that could start now; read without locks."""
    return first_in_line(Q(pool__in=_pools_with_free_slots()))


def _pools_with_free_slots() -> set[str]:
    queued = Occurrence.objects.waiting().order_by().values_list("pool", flat=True)
    pools = set(queued.union(Occurrence.objects.wanting_slots().order_by().values_list("pool", flat=True)))
    return pools_with_free_slots(pools) if pools else set()
