"""Free the slots of occurrences of which nothing can run, and let them go on when something can (LIM-4).

- Runs that were sent to a queue which no live worker consumes are parked after `lost_after`. With the first
  worker of that queue they wait for a slot again. While no worker is alive at all nothing is parked: nothing
  could use the slots, and each slot would only send another message.
- A worker that gave no slot back because it died between two steps leaves that to this step.

The occurrence stays active: its job starts no other occurrence that its overlap policy forbids.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from punctual.conf import current_settings
from punctual.execution.ending.settle import Settled, roll_up
from punctual.execution.supervision.presence import live_consumers
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
from punctual.occurrences.admission.slots import ask_for_slots, resume
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.querysets import OccurrenceQuerySet, TaskRunQuerySet
from punctual.occurrences.states import RUN_OPEN, RunState

BATCH = 200
QUEUE = Cast(KT("policy__queue"), TextField())  # as text: SQLite would read the names of `IN` as JSON


@dataclass(frozen=True)
class Freed:
    """How many runs were parked, and the runs to send: of others, or of those that may go on."""

    parked: int = 0
    released: tuple[UUID, ...] = ()


def free_idle_slots(now: datetime, *, limit: int = BATCH) -> Freed:
    queues = set(live_consumers(now))
    parked = _park_unserved(queues, now, limit) if queues else 0
    served = _resume_served(queues, now, limit) if queues else ()
    return Freed(parked, (*served, *_rest_idle(now, limit).released))


def _park_unserved(queues: Collection[str], now: datetime, limit: int) -> int:
    """Park unclaimed runs of other queues; a claim that comes first wins."""
    unclaimed = TaskRun.objects.unclaimed(now - current_settings().lost_after).alias(queue=QUEUE)
    unserved = unclaimed.exclude(queue__in=queues).order_by("dispatched_at")
    if not unserved.exists():
        return 0
    with transaction.atomic():
        locked = unserved.select_for_update(skip_locked=True, no_key=True)
        rows = list(locked.values_list("id", QUEUE)[:limit])
        parked = transitions.park([id_ for id_, _ in rows], now=now)
    if parked:
        emit(Event.RUN_UNSERVED, count=parked, queues=",".join(sorted({queue for _, queue in rows})))
    return parked


def _resume_served(queues: Collection[str], now: datetime, limit: int) -> tuple[UUID, ...]:
    """Runs whose queue has a worker again: they go on at once if their occurrence has a slot."""
    parked = TaskRun.objects.filter(state=RunState.SCHEDULED, parked_at__isnull=False)
    served = parked.alias(queue=QUEUE).filter(queue__in=queues, occurrence__slot_wanted_at=None)
    owners = set(served.order_by().values_list("occurrence_id", flat=True)[:limit])
    if not owners:
        return ()
    with transaction.atomic():
        locked = transitions.lock_free_occurrences(owners)
        holding = transitions.unpark([row.id for row in locked if row.holds_slot], now=now)
        asking = {row.id: row.pool for row in locked if not row.holds_slot}
        ask_for_slots(dict.fromkeys(asking, ()), now=now)
    return (*holding, *(resume(set(asking.values()), now=now) if asking else ()))


def _rest_idle(now: datetime, limit: int) -> Settled:
    idle = list(idle_occurrences().order_by("id").values_list("id", flat=True)[:limit])
    if not idle:
        return Settled()
    with transaction.atomic():
        rows = transitions.lock_free_occurrences(idle)
        return roll_up(rows, transitions.read_runs([row.id for row in rows]), now=now)


def idle_occurrences() -> OccurrenceQuerySet:
    """They hold a slot, and all their open runs wait."""
    runs: TaskRunQuerySet = TaskRun.objects.filter(occurrence=OuterRef("pk"))
    waiting = Exists(runs.filter(state__in=RUN_OPEN, available_at__isnull=False))
    return Occurrence.objects.holding_slots().filter(waiting, ~Exists(runs.moving()))
