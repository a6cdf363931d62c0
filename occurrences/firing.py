"""Due rows → admitted occurrences with their task runs, in one transaction; messages follow after it.

The job's cursor is the mutex of admission: whoever opens an occurrence holds it, so "is one active?"
cannot change between the question and the answer. Rows another beat holds are left to that beat.
Locks are taken in one order everywhere: occurrences, cursors, pools. The batch takes a constant
number of statements, however many jobs there are.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from occurrences import due, transitions
from occurrences.admission import KEEPS_LATEST, REQUESTED, SUPERSEDED, Admission, Facts, admit
from occurrences.arrays import Ids
from occurrences.due import Due
from occurrences.models import Cursor, Occurrence
from occurrences.opening import open_occurrences, starts_left_of, steps_of
from occurrences.pools import free_slots, with_lines
from occurrences.ready import Ready
from occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState

BATCH = 1000


@dataclass(frozen=True)
class Fired:
    """`ready` are the runs that may start now: to be sent after the commit."""

    ready: tuple[Ready, ...] = ()
    fired: int = 0
    queued: int = 0
    skipped: int = 0
    missed: int = 0
    contended: int = 0

    @property
    def released(self) -> tuple[UUID, ...]:
        return tuple(run.run_id for run in self.ready)

    @property
    def handled(self) -> int:
        return self.fired + self.queued + self.skipped + self.missed


def fire_due(now: datetime, *, limit: int = BATCH) -> Fired:
    # A read first: on SQLite an empty tick must not take the write lock.
    if not Occurrence.objects.due(now).timely(now).exists():
        return Fired()
    with transaction.atomic():
        rows = _try_rows(now, limit)
        starts = _try_cursors(set(rows.values()), now)
        jobs = Ids(starts)
        mine = due.read([id_ for id_, job in rows.items() if job in starts], state=OccurrenceState.PENDING)
        if not mine:
            return Fired(contended=len(rows))
        steps, broken = steps_of(jobs)
        left = starts_left_of(mine, starts)
        facts = Facts(now, steps.keys(), _occupied(jobs), broken, left, _free({row.pool for row in mine}))
        admission = admit(mine, facts)
        _write(admission, now)
        ready = open_occurrences(admission.fire, steps, now=now, bounded=left.keys())
    return _result(admission, ready, contended=len(rows) - len(mine))


def _try_rows(now: datetime, limit: int) -> dict[UUID, UUID]:
    """Due rows that could be locked at once, each with its job."""
    rows = Occurrence.objects.due(now).timely(now).order_by("run_at", "id")
    locked = rows.select_for_update(skip_locked=True, no_key=True)
    return dict(locked.values_list("id", "job_id")[:limit])


def _occupied(jobs: Collection[UUID]) -> set[UUID]:
    """Jobs with an exclusive occurrence under way or in line: a newcomer comes after it."""
    states = (OccurrenceState.QUEUED, *OCCURRENCE_ACTIVE)
    ahead = Occurrence.objects.filter(job__any=jobs, state__in=states, exclusive=True)
    return set(ahead.values_list("job_id", flat=True))


def _free(pools: Collection[str]) -> dict[str, int]:
    """Where others already wait there is nothing free for newcomers: they get in line."""
    lines = with_lines(pools)
    return {name: 0 if name in lines else slots for name, slots in free_slots(pools).items()}


def _write(admission: Admission, now: datetime) -> None:
    for reason, ids in sorted(admission.skip.items()):
        transitions.skip(ids, reason=reason, now=now)
    if admission.miss:
        transitions.miss(admission.miss, reason="window", now=now)
    for reason, rows in sorted(admission.queue.items()):
        transitions.queue([row.id for row in rows], reason=reason)
    _supersede(admission.queue.get("overlap", []), now)


def _supersede(queued: Collection[Due], now: datetime) -> None:
    """Of a job that keeps the latest only, whoever waited before gives way."""
    latest = [row for row in queued if row.overlap in KEEPS_LATEST]
    if latest:
        waiting = Occurrence.objects.waiting().filter(job__any=[row.job_id for row in latest])
        waiting = waiting.exclude(cause__in=REQUESTED)
        older = waiting.exclude(id__in=[row.id for row in latest]).values_list("id", flat=True)
        transitions.skip(list(older), reason=SUPERSEDED, now=now)


def _try_cursors(jobs: Collection[UUID], now: datetime) -> dict[UUID, int]:
    """The jobs whose cursor could be locked at once, with the starts they have had.

    One that was edited and is not yet planned anew is left alone: what it planned before may be void.
    """
    rows = Cursor.objects.filter(job__any=jobs).exclude(planned_until=None, plan_at__lte=now)
    locked = rows.order_by("job_id").select_for_update(skip_locked=True, no_key=True)
    return dict(locked.values_list("job_id", "starts"))


def _result(admission: Admission, ready: tuple[Ready, ...], *, contended: int) -> Fired:
    return Fired(
        ready=ready,
        fired=len(admission.fire),
        queued=sum(map(len, admission.queue.values())),
        skipped=sum(map(len, admission.skip.values())),
        missed=len(admission.miss),
        contended=contended,
    )
