"""django-celery-beat's PeriodicTasks under several beats: each due run is sent once (OCC-10).

Upstream keeps "when did it last run" in memory and writes it back later, so two beats send everything
twice. Here the run is reserved in the row first: one guarded UPDATE, whose row count says who sends.
"""

from typing import Any

from django.db.models import F, Q
from django_celery_beat.models import PeriodicTask


def reserved(entry: Any, next_entry: Any) -> bool:
    """Write the run `next_entry` stands for; False when another beat has already run it.

    `entry.last_run_at` is what this beat believed when it found the entry due.
    """
    unclaimed = Q(last_run_at=None) | Q(last_run_at__lte=entry.last_run_at)
    rows = PeriodicTask.objects.filter(unclaimed, pk=entry.model.pk, enabled=True)
    run = {"last_run_at": next_entry.model.last_run_at, "total_run_count": F("total_run_count") + 1}
    changed: int = rows.update(**run)
    return changed == 1


def refreshed(next_entry: Any) -> None:
    """Take over what the winner wrote, so that the next due time is counted from there."""
    facts = PeriodicTask.objects.filter(pk=next_entry.model.pk)
    for last_run_at, total in facts.values_list("last_run_at", "total_run_count"):
        if last_run_at is not None:
            next_entry.last_run_at = next_entry.model.last_run_at = last_run_at
        next_entry.total_run_count = next_entry.model.total_run_count = total
