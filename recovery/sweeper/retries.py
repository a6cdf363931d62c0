"""Release retries whose delay is over (EXE-4); a tick with due retries calls it."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.occurrences import transitions
from punctual.occurrences.models import TaskRun

BATCH = 500


def release_due_retries(now: datetime, *, limit: int = BATCH) -> list[UUID]:
    """Move due retries to scheduled and return their ids; the beat that moved a run also sends it."""
    due = TaskRun.objects.retry_due(now).order_by("available_at", "id")
    with transaction.atomic():
        ids = list(due.select_for_update(skip_locked=True, no_key=True).values_list("id", flat=True)[:limit])
        transitions.reschedule(ids, now=now)
    return ids
