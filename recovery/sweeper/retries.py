"""Release retries whose delay is over (EXE-4); a tick with due retries calls it.

A retry of an occurrence that holds a slot starts at once; any other is parked until there is one (LIM-4).
"""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.jobs.database_errors import unless_locked
from punctual.occurrences import transitions
from punctual.occurrences.admission.slots import ask_for_slots, resume
from punctual.occurrences.models import TaskRun

BATCH = 500


def release_due_retries(now: datetime, *, limit: int = BATCH) -> list[UUID]:
    """Move due retries to scheduled and return their ids; the beat that moved a run also sends it.

    The occurrence is locked with its run: a worker that ends the last run beside it gives the slot back.
    """
    due = TaskRun.objects.retry_due(now).order_by("available_at", "id")
    ready: list[UUID] = []
    slotless: dict[UUID, list[UUID]] = {}
    with transaction.atomic():
        locked = due.select_for_update(of=("self", "occurrence"), skip_locked=True, no_key=True)
        runs = list(
            locked.select_related("occurrence").only("occurrence__holds_slot", "occurrence__pool")[:limit]
        )
        for run in runs:
            owned = ready if run.occurrence.holds_slot else slotless.setdefault(run.occurrence_id, [])
            owned.append(run.id)
        transitions.reschedule(ready, now=now)
        ask_for_slots(slotless, now=now)
    pools = {run.occurrence.pool for run in runs if run.occurrence_id in slotless}
    with unless_locked("resume"):
        ready += resume(pools, now=now) if pools else ()
    return ready
