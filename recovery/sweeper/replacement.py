"""Cancel the active occurrence of an overlap=replace job when a newer one waits for its place.

A recovered, replayed or backfilled occurrence replaces nothing and is not replaced (LIM-5).

Firing only queues the newer occurrence: it holds the lock of the job's cursor, while ending an occurrence
locks the occurrence first. Doing both in one transaction could deadlock with a worker that settles.
"""

from datetime import datetime

from django.db.models import Exists, OuterRef

from punctual.execution.ending.cancel import cancel
from punctual.execution.ending.settle import Settled
from punctual.jobs.config.choices import Overlap
from punctual.occurrences.models import Occurrence
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import LIVE_CAUSES, Reason

BATCH = 200


def end_replaced(now: datetime, *, limit: int = BATCH) -> Settled:
    ids = list(replaced_occurrences().order_by("id").values_list("id", flat=True)[:limit])
    return cancel(ids, reason=Reason.REPLACED, now=now, wait=False) if ids else Settled()


def replaced_occurrences() -> OccurrenceQuerySet:
    newer = Occurrence.objects.waiting().filter(
        job=OuterRef("job"),
        reason=Reason.OVERLAP,
        config__overlap=Overlap.REPLACE.value,
        cause__in=LIVE_CAUSES,
    )
    return Occurrence.objects.active().filter(Exists(newer), exclusive=True, cause__in=LIVE_CAUSES)
