"""Admit waiting occurrences when a slot or a job becomes free: by priority, then by start time (OCC-6).

Called inside the transaction that frees the slot, and by the sweeper for slots whose worker died.
"""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from punctual.occurrences import transitions
from punctual.occurrences.admission.admit import Facts, admit
from punctual.occurrences.admission.candidates import read_candidates
from punctual.occurrences.admission.capacity import (
    affected_pools,
    estimate_free_slots,
    free_slots,
    starts_left_by_job,
)
from punctual.occurrences.admission.catch_up import pace
from punctual.occurrences.admission.opening import open_occurrences, resolve_steps, with_held_tasks
from punctual.occurrences.admission.slots import resume_waiting
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.querysets import Ids, IdText, OccurrenceQuerySet
from punctual.occurrences.states import LIVE_CAUSES, OccurrenceState, Reason

BATCH = 200
SPARE_CANDIDATES = 20  # read beyond the free slots: some may be expired, or taken by another worker


def admit_waiting(
    *, jobs: Collection[UUID] = (), pools: Collection[str] = (), now: datetime, limit: int = BATCH
) -> tuple[UUID, ...]:
    """Open the occurrences of these jobs and pools that may start now; return the runs to send.

    Occurrences that started before and wait for a slot to go on come first.
    """
    pools = affected_pools(pools)
    candidates = _candidates(jobs, pools, limit)
    wanting = set(Occurrence.objects.wanting_slots().filter(pool__in=pools).values_list("pool", flat=True))
    if not candidates and not wanting:
        return ()
    free = free_slots({*wanting, *(pool for _, _, pool in candidates)})
    resumed = resume_waiting(free, now=now) if wanting else ()
    starts = _lock_cursors({job for _, job, _ in candidates}, now)
    # Read again under the locks: another process may have opened them meanwhile.
    ids = _lock_waiting([id_ for id_, job, _ in candidates if job in starts])
    rows = read_candidates(ids, state=OccurrenceState.QUEUED)
    steps, broken = resolve_steps(rows, now)
    held = with_held_tasks(steps)
    rows = [row for row in rows if row.id not in held]
    left = starts_left_by_job(rows, starts)
    admission = admit(rows, Facts(now, steps.keys(), _busy(starts), broken, left, free))
    for reason, skipped in sorted(admission.skip.items()):
        # Rows that do not fit are waiting already: the overlap policy was applied when they were fired.
        if reason is not Reason.OVERLAP:
            transitions.skip(skipped, reason=reason, now=now)
    if admission.miss:
        transitions.miss(admission.miss, reason=Reason.WINDOW, now=now)
    with engine().pipeline():
        opened = open_occurrences(admission.fire, steps, now=now, bounded=left.keys())
    pace(admission.fire, now=now)
    return (*resumed, *(UUID(run.run_id) for run in opened))


def _candidates(jobs: Collection[UUID], pools: Collection[str], limit: int) -> set[tuple[str, str, str]]:
    """Id, job and pool of those that may start; of each pool hardly more than it has slots.

    Two queries instead of one with OR: each is answered in the order of its own index.
    """
    columns = (IdText("id"), IdText("job_id"), "pool")
    candidates = set(first_in_line(Q(job__any=jobs)).values_list(*columns)[:limit]) if jobs else set()
    if free := {name: slots for name, slots in estimate_free_slots(pools).items() if slots}:
        count = min(limit, sum(free.values()) + SPARE_CANDIDATES)
        candidates |= set(first_in_line(Q(pool__in=free)).values_list(*columns)[:count])
    return candidates


def first_in_line(condition: Q) -> OccurrenceQuerySet:
    """The first waiting occurrence of each job that has none active; all of jobs that may overlap.

    Live ones come before those that are recovered, replayed or backfilled.
    """
    same_job = {"job": OuterRef("job")}
    active = Occurrence.objects.active().filter(exclusive=True, **same_job)
    others = Occurrence.objects.waiting().filter(**same_job)
    live = others.filter(cause__in=LIVE_CAUSES)
    earlier = Q(run_at__lt=OuterRef("run_at")) | Q(run_at=OuterRef("run_at"), id__lt=OuterRef("id"))
    first_live = Q(cause__in=LIVE_CAUSES) & ~Exists(live.filter(earlier))
    first_of_all = ~Exists(live) & ~Exists(others.filter(earlier))
    free = Q(exclusive=False) | (~Exists(active) & (first_live | first_of_all))
    rows = Occurrence.objects.waiting().filter(condition)
    return rows.filter(free).order_by("-priority", "run_at", "id")


def _lock_cursors(jobs: Collection[str], now: datetime) -> dict[str, int]:
    """The cursors that no other process holds, except of jobs that were edited and are not planned anew yet.

    A beat that holds one, and queues an occurrence, looks after its commit whether it can start; if another
    session holds one, the sweeper looks every two seconds.
    """
    rows = Cursor.objects.filter(job__any=Ids(jobs)).exclude(planned_until=None, plan_at__lte=now)
    locked = rows.order_by("job_id").select_for_update(skip_locked=True, no_key=True)
    return dict(locked.values_list(IdText("job_id"), "starts"))


def _lock_waiting(ids: Collection[str]) -> list[str]:
    """With their cursors locked, only a process that ends them can hold some: do not wait for it, because it
    may wait for a pool."""
    rows = Occurrence.objects.waiting().filter(id__any=Ids(ids)).order_by("id")
    return list(rows.select_for_update(skip_locked=True, no_key=True).values_list(IdText("id"), flat=True))


def _busy(jobs: Collection[str]) -> dict[str, str]:
    active = Occurrence.objects.active().filter(job__any=Ids(jobs), exclusive=True)
    return dict(active.values_list(IdText("job_id"), "cause"))
