"""Due rows → admitted occurrences with their task runs, in one transaction; messages follow after it.

The job's cursor is the mutex of admission: whoever opens an occurrence holds it, so "is one active?"
cannot change between the question and the answer. Rows another beat holds are left to that beat.
Locks are taken in one order everywhere: occurrences, cursors, pools. The batch takes a constant
number of statements, however many jobs there are.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from occurrences import transitions
from occurrences.admission import KEEPS_LATEST, REQUESTED, SUPERSEDED, Admission, Facts, admit
from occurrences.due import Due
from occurrences.models import Occurrence
from occurrences.opening import open_occurrences, starts_left_of
from occurrences.picking import pick
from occurrences.pools import free_slots, with_lines
from occurrences.ready import Ready

BATCH = 1000

# What was read of each job, and the runs to be sent → what to do while they are written. What has to be asked
# is asked at once.
Prepare = Callable[[Mapping[str, tuple[Any, ...]], Sequence[Ready]], Callable[[], None]]


def no_preparation(_plans: object, _ready: object) -> Callable[[], None]:
    return lambda: None


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
        return tuple(UUID(run.run_id) for run in self.ready)

    @property
    def handled(self) -> int:
        return self.fired + self.queued + self.skipped + self.missed


def fire_due(now: datetime, *, limit: int = BATCH, prepare: Prepare = no_preparation) -> Fired:
    # A read first: on SQLite an empty tick must not take the write lock.
    if not Occurrence.objects.due(now).timely(now).exists():
        return Fired()
    with transaction.atomic():
        picked = pick(now, limit)
        if not picked.rows:
            return Fired(contended=picked.found)
        left = starts_left_of(picked.rows, picked.starts)
        free = _free({row.pool for row in picked.rows})
        facts = Facts(now, picked.steps.keys(), picked.busy, picked.broken, left, free)
        admission = admit(picked.rows, facts)
        _write(admission, now)
        ready = open_occurrences(
            admission.fire,
            picked.steps,
            now=now,
            bounded=left.keys(),
            prepare=partial(prepare, picked.plans),
        )
    return _result(admission, ready, contended=picked.found - len(picked.rows))


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


def _result(admission: Admission, ready: tuple[Ready, ...], *, contended: int) -> Fired:
    return Fired(
        ready=ready,
        fired=len(admission.fire),
        queued=sum(map(len, admission.queue.values())),
        skipped=sum(map(len, admission.skip.values())),
        missed=len(admission.miss),
        contended=contended,
    )
