"""Queued occurrences whose job has nothing active → admitted: whoever freed the slot died too soon."""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from occurrences.firing import admit_waiting
from occurrences.models import Occurrence

BATCH = 200


def admit_stranded(now: datetime, *, limit: int = BATCH) -> tuple[UUID, ...]:
    active = Occurrence.objects.active().filter(job=OuterRef("job"), exclusive=True)
    stranded = Occurrence.objects.waiting().filter(~Exists(active))
    jobs = list(stranded.order_by("job_id").values_list("job_id", flat=True).distinct()[:limit])
    if not jobs:
        return ()
    with transaction.atomic():
        return admit_waiting(jobs, now=now)
