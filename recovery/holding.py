"""Jobs → their `Pruned` rows, locked: nobody else prunes them until the transaction ends.

Always before any lock on an occurrence, so that nobody waits in a circle.
"""

from collections.abc import Collection
from uuid import UUID

from jobs.models import Job
from recovery.models import Pruned


def held(jobs: Collection[UUID], *, waits: bool) -> dict[UUID, Pruned]:
    """`waits`: for a job that another process holds; otherwise it is left out."""
    found = Pruned.objects.filter(job__any=jobs).order_by("job_id")
    missing = set(jobs) - set(found.values_list("job_id", flat=True))
    if missing:
        created = Job.objects.filter(id__any=missing).order_by("id").values_list("id", "created_at")
        first = [Pruned(job_id=job, until=at) for job, at in created]
        Pruned.objects.bulk_create(first, ignore_conflicts=True)
    return {row.job_id: row for row in found.select_for_update(skip_locked=not waits)}
