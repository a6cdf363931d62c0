"""Fire due occurrences: admit them and create their task runs in one transaction; messages follow after it.

The cursor of a job is the mutex of its admission: every process that opens an occurrence holds it, so the
answer to "is one active?" cannot change before it is used. Rows locked by another beat are left to that beat.
A batch takes a constant number of statements, however many jobs exist.

Sessions that are not ours may hold any row. Occurrences and cursors are skipped if they are held. Tasks, to
which the new runs refer, and pools are waited for, up to the beat's lock_timeout; then the beat fires
carefully: it also skips what needs a held task or pool.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.jobs.events import Event, emit
from punctual.jobs.ids import format_id
from punctual.occurrences import transitions
from punctual.occurrences.admission.admit import Admission, Facts, admit
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.admission.capacity import free_slots, pools_with_queue, starts_left_by_job
from punctual.occurrences.admission.opening import open_occurrences, with_held_tasks
from punctual.occurrences.admission.overlap import KEEPS_LATEST
from punctual.occurrences.admission.selection import Selection, select_due
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Occurrence
from punctual.occurrences.outbox import Ready
from punctual.occurrences.planning.cursors import SeenJob
from punctual.occurrences.states import LIVE_CAUSES, Reason

BATCH = 1000


@dataclass(frozen=True)
class Fired:
    """`ready` are the runs that may start now, to be sent after the commit; `jobs` are those of all rows, for
    planning; `contended` counts rows that other beats held; `more`: further rows are due."""

    ready: tuple[Ready, ...] = ()
    jobs: Mapping[str, SeenJob] = field(default_factory=dict)
    fired: int = 0
    queued: int = 0
    skipped: int = 0
    missed: int = 0
    contended: int = 0
    more: bool = False

    @property
    def released(self) -> tuple[UUID, ...]:
        return tuple(UUID(run.run_id) for run in self.ready)

    @property
    def handled(self) -> int:
        return self.fired + self.queued + self.skipped + self.missed


def fire_due(now: datetime, *, limit: int = BATCH, careful: bool = False) -> Fired:
    """Fire up to `limit` occurrences whose start time has come and which are not late.

    `careful` leaves out occurrences of which another session holds a task or the pool.
    """
    # A read first: on SQLite an empty tick must not take the write lock.
    if not Occurrence.objects.due(now).timely(now).exists():
        return Fired()
    with transaction.atomic():
        selection = select_due(now, limit)
        if not selection.rows:
            return Fired(contended=selection.due_count, more=selection.more)
        return fire_selection(selection, now, careful=careful)


def fire_selection(selection: Selection, now: datetime, *, careful: bool = False) -> Fired:
    """Admit locked rows. Call inside the transaction that has locked them."""
    left = starts_left_by_job(selection.rows, selection.starts)
    free = _free_slots({row.pool for row in selection.rows}, wait=not careful)
    if careful:
        selection = _without_held(selection, free)
    facts = Facts(now, selection.steps.keys(), selection.busy, selection.broken, left, free)
    admission = admit(selection.rows, facts)
    _write(admission, now)
    if admission.skip:
        _emit_skips(selection.rows, admission.skip)
    with engine().pipeline():
        ready = open_occurrences(admission.fire, selection.steps, now=now, bounded=left.keys())
        return _result(selection, admission, ready)  # built while the database writes


def _free_slots(pools: Collection[str], *, wait: bool) -> dict[str, int]:
    """In a pool with a queue no slot is free for newcomers: they go to its end."""
    free = free_slots(pools, wait=wait)
    return free | {name: 0 for name in pools_with_queue(pools) if name in free}


def _without_held(selection: Selection, pools: Container[str]) -> Selection:
    held = with_held_tasks(selection.steps)
    rows = [row for row in selection.rows if row.pool in pools and row.id not in held]
    return replace(selection, rows=rows)


def _write(admission: Admission, now: datetime) -> None:
    for reason, ids in sorted(admission.skip.items()):
        transitions.skip(ids, reason=reason, now=now)
    if admission.miss:
        transitions.miss(admission.miss, reason=Reason.WINDOW, now=now)
    for reason, rows in sorted(admission.queue.items()):
        transitions.queue([row.id for row in rows], reason=reason)
    _supersede(admission.queue.get(Reason.OVERLAP, []), now)


def _emit_skips(rows: Iterable[Due], skipped: Mapping[Reason, Collection[str]]) -> None:
    """Log what an overlap has skipped; other reasons are states of the job, and would be logged for ever."""
    for reason in (Reason.OVERLAP, Reason.SUPERSEDED):
        ids = set(skipped.get(reason, ()))
        for row in rows:
            if row.id in ids:
                emit(
                    Event.OCCURRENCE_SKIPPED, job=row.job, occurrence=format_id("occ", row.id), reason=reason
                )


def _supersede(queued: Collection[Due], now: datetime) -> None:
    """Skip older waiting occurrences of jobs whose policy keeps only the latest."""
    latest = [row for row in queued if row.overlap in KEEPS_LATEST and row.cause in LIVE_CAUSES]
    if latest:
        waiting = Occurrence.objects.waiting().filter(job__any=[row.job_id for row in latest])
        waiting = waiting.filter(cause__in=LIVE_CAUSES).exclude(reason=Reason.CATCH_UP)
        older = waiting.exclude(id__in=[row.id for row in latest]).order_by("id")
        # The cursor is locked already: do not wait for an occurrence that another process is ending.
        locked = older.select_for_update(skip_locked=True, no_key=True).values_list("id", flat=True)
        transitions.skip(list(locked), reason=Reason.SUPERSEDED, now=now)


def _result(selection: Selection, admission: Admission, ready: tuple[Ready, ...]) -> Fired:
    return Fired(
        ready=ready,
        jobs=selection.seen_jobs(),
        fired=len(admission.fire),
        queued=sum(map(len, admission.queue.values())),
        skipped=sum(map(len, admission.skip.values())),
        missed=len(admission.miss),
        contended=selection.due_count - len(selection.rows),
        more=selection.more,
    )
