"""Retries whose time has come → scheduled, then sent (EXE-4). Runs in every tick: a wait ends on time."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from occurrences import transitions
from occurrences.models import TaskRun

BATCH = 500


def release_due(now: datetime, *, limit: int = BATCH) -> list[UUID]:
    """The beat that moves a retry to scheduled is the one that sends it."""
    due = TaskRun.objects.retry_due(now).order_by("available_at", "id")
    if not due.exists():
        return []
    with transaction.atomic():
        ids = list(due.select_for_update(skip_locked=True, no_key=True).values_list("id", flat=True)[:limit])
        transitions.reschedule(ids, now=now)
    return ids
