"""Give free slots to active occurrences that had given theirs back, ahead of those that have not started.

While nothing of an occurrence can run it holds no slot (LIM-4): all its open runs wait for a retry, or for a
queue without a worker. Its runs are parked from the moment they could go on until it has a slot again.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import chain
from uuid import UUID

from django.db import transaction

from punctual.occurrences import transitions
from punctual.occurrences.admission.capacity import free_slots, take_slot
from punctual.occurrences.models import Occurrence

BATCH = 200


def ask_for_slots(runs: Mapping[UUID, Collection[UUID]], *, now: datetime) -> None:
    """Park these runs of locked occurrences without a slot, and put the occurrences in line."""
    transitions.park(list(chain(*runs.values())), now=now)
    transitions.want_slot(list(runs), now=now)


def resume(pools: Collection[str], *, now: datetime) -> tuple[UUID, ...]:
    """Let occurrences of these pools go on that wait for a slot; return the runs to send."""
    with transaction.atomic():
        return resume_waiting(free_slots(pools), now=now)


def resume_waiting(free: dict[str, int], *, now: datetime, limit: int = BATCH) -> tuple[UUID, ...]:
    """Give slots of these locked pools to occurrences that wait for one; `free` is reduced by them.

    Return the runs to send. Rows that another process holds are skipped: it may wait for one of the pools.
    """
    with_room = [name for name, slots in free.items() if slots]
    wanting = Occurrence.objects.wanting_slots().filter(pool__in=with_room)
    ordered = wanting.order_by("-priority", "run_at", "id").select_for_update(skip_locked=True, no_key=True)
    deadlines: dict[UUID, datetime | None] = {}
    for row in ordered.only("pool", "slot_wanted_at", "deadline_at")[:limit]:
        if not take_slot(free, row.pool):
            waited = now - (row.slot_wanted_at or now)
            deadlines[row.id] = row.deadline_at and row.deadline_at + waited
    if not deadlines:
        return ()
    transitions.take_slot(deadlines)
    return tuple(transitions.unpark(list(deadlines), now=now))
