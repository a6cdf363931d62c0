"""Active occurrences of `replace` jobs with a newer one in line → canceled, so that the newer one starts.

Firing only puts the newer one in line: it holds the job's cursor, and ending an occurrence takes its
row first. Doing both in one transaction would wait in a circle with a worker that settles.
"""

from datetime import datetime

from django.db.models import Exists, OuterRef

from execution.cancel import cancel
from execution.settle import Settled
from jobs.config import Overlap
from occurrences.models import Occurrence, OccurrenceQuerySet

BATCH = 200


def end_replaced(now: datetime, *, limit: int = BATCH) -> Settled:
    ids = list(replaced().order_by("id").values_list("id", flat=True)[:limit])
    return cancel(ids, reason="replaced", now=now) if ids else Settled()


def replaced() -> OccurrenceQuerySet:
    newer = Occurrence.objects.waiting().filter(
        job=OuterRef("job"), reason="overlap", config__overlap=Overlap.REPLACE.value
    )
    return Occurrence.objects.active().filter(Exists(newer), exclusive=True)
