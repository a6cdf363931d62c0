"""Slots or jobs that fell free → the next in line opened: by priority, then by chosen time (OCC-6).

Called inside the transaction that freed the slot, and by the sweeper for slots whose freer died.
"""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from occurrences import due, transitions
from occurrences.admission import Facts, admit, in_line
from occurrences.arrays import Ids, IdText
from occurrences.models import Cursor, Occurrence, OccurrenceQuerySet
from occurrences.opening import open_occurrences, starts_left_of, steps_of
from occurrences.pools import free_slots, room
from occurrences.states import OccurrenceState

BATCH = 200
SPARE = 20  # more than there are slots: some may turn out to be expired, or taken by who settles beside us


def admit_waiting(
    *, jobs: Collection[UUID] = (), pools: Collection[str] = (), now: datetime, limit: int = BATCH
) -> tuple[UUID, ...]:
    """Open who may start now, of these jobs and in these pools; returns the runs to send."""
    candidates = _candidates(jobs, pools, limit)
    if not candidates:
        return ()
    starts = _lock_cursors({job for _, job, _ in candidates})
    free = free_slots({pool for _, _, pool in candidates})
    # Looked at again under the locks: another process may have opened them meanwhile.
    rows = sorted(due.read([id_ for id_, *_ in candidates], state=OccurrenceState.QUEUED), key=in_line)
    steps, broken = steps_of(starts)
    left = starts_left_of(rows, starts)
    admission = admit(rows, Facts(now, steps.keys(), _busy(starts), broken, left, free))
    for reason, ids in sorted(admission.skip.items()):
        # Whoever does not fit is waiting already: overlap decides nothing here.
        if reason != "overlap":
            transitions.skip(ids, reason=reason, now=now)
    if admission.miss:
        transitions.miss(admission.miss, reason="window", now=now)
    opened = open_occurrences(admission.fire, steps, now=now, bounded=left.keys())
    return tuple(UUID(run.run_id) for run in opened)


def _candidates(jobs: Collection[UUID], pools: Collection[str], limit: int) -> set[tuple[str, str, str]]:
    """Of each pool no more than could start: a line of thousands is neither read nor locked for one slot.

    Two questions and not one with OR: each is answered in the order of its own index.
    """
    columns = (IdText("id"), IdText("job_id"), "pool")
    found = set(heads(Q(job__any=jobs)).values_list(*columns)[:limit]) if jobs else set()
    if free := {name: slots for name, slots in room(pools).items() if slots}:
        most = min(limit, sum(free.values()) + SPARE)
        found |= set(heads(Q(pool__in=free)).values_list(*columns)[:most])
    return found


def heads(whose: Q) -> OccurrenceQuerySet:
    """The first in line of each job that has nothing active; of jobs that may overlap, all."""
    same = {"job": OuterRef("job")}
    active = Occurrence.objects.active().filter(exclusive=True, **same)
    earlier = Occurrence.objects.waiting().filter(
        Q(run_at__lt=OuterRef("run_at")) | Q(run_at=OuterRef("run_at"), id__lt=OuterRef("id")), **same
    )
    free = Q(exclusive=False) | (~Exists(active) & ~Exists(earlier))
    rows = Occurrence.objects.waiting().filter(whose)
    return rows.filter(free).order_by("-priority", "run_at", "id")


def _lock_cursors(jobs: Collection[str]) -> dict[str, int]:
    # Ordered, so that two settling workers wait for each other instead of deadlocking.
    rows = Cursor.objects.filter(job__any=Ids(jobs)).order_by("job_id")
    return dict(rows.select_for_update(no_key=True).values_list(IdText("job_id"), "starts"))


def _busy(jobs: Collection[str]) -> set[str]:
    active = Occurrence.objects.active().filter(job__any=Ids(jobs), exclusive=True)
    return set(active.values_list(IdText("job_id"), flat=True))
