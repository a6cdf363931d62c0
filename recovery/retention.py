"""Finished occurrences older than their job's retention → deleted, counted first (REC-6).

Beats do it by themselves, a few rows at a time (`pruning`); this is for whoever will not wait. An
instant does not come back: the cursor has passed it. Dead letters nobody has dealt with stay.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef

from jobs.errors import PunctualError
from jobs.models import Job
from jobs.scheduling import job_config
from occurrences.models import Occurrence, OccurrenceQuerySet, TaskRun
from occurrences.states import OCCURRENCE_FINAL
from recovery.audit import Asked, Entry, audited
from recovery.erasing import dead_letters_of, erase
from recovery.models import Action
from recovery.oldest import Keeps, Old, oldest

BATCH = 1000
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Kept:
    """One job's retention, applied. `more`: there is more, and nobody wanted all of it."""

    job: str
    cutoff: datetime
    pruned: int
    more: bool = False


def cutoff_of(job: Job, now: datetime) -> datetime | None:
    """None: the job keeps everything."""
    try:
        retention = job_config(job).retention
        return None if retention is None else now - retention
    except PunctualError:  # what is wrong with it is recorded by planning; nothing is deleted on a guess
        return None


def keeping(jobs: Iterable[Job], now: datetime) -> list[Keeps]:
    """Those of them that do not keep everything."""
    cutoffs = ((job, cutoff_of(job, now)) for job in jobs)
    return [Keeps(job.id, cutoff) for job, cutoff in cutoffs if cutoff is not None]


def prune(
    job: Job,
    *,
    asked: Asked,
    now: datetime,
    most: int | None = None,
    progress: Progress = lambda _count: None,
) -> Kept | None:
    """None: the job keeps everything. Safe beside beats, workers and other prunes; `most` ends it early."""
    cutoff = cutoff_of(job, now)
    if cutoff is None:
        return None
    told = {"job": job.name, "older_than": cutoff.isoformat()}
    with audited(Action.PRUNE, asked, now=now, details=told) as entry:
        done = prune_jobs([Keeps(job.id, cutoff)], entry=entry, most=most, progress=progress)
    return Kept(job.name, cutoff, done.pruned, more=done.more)


@dataclass(frozen=True)
class Gone:
    pruned: int
    more: bool = False


def prune_jobs(
    jobs: Sequence[Keeps],
    *,
    entry: Entry,
    most: int | None = None,
    progress: Progress = lambda _count: None,
) -> Gone:
    """A part of the request that `entry` is about; `jobs` in the order of their ids."""
    cutoffs = {one.job_id: one.cutoff for one in jobs}
    total = 0
    while most is None or total < most:
        size = BATCH if most is None else min(BATCH, most - total)
        rows = oldest(jobs, size)
        gone = _erased([row for row in rows if row.over(cutoffs[row.job_id])], entry)
        total += gone
        progress(gone)
        if len(rows) < size:
            return Gone(total)
        jobs = from_row(jobs, rows[-1])
    return Gone(total, more=bool(oldest(jobs, 1)))


def _erased(rows: Sequence[Old], entry: Entry) -> int:
    with transaction.atomic():
        done = sum(erase(rows, waits=True).values())
        entry.add(done)
    return done


def from_row(jobs: Sequence[Keeps], row: Old) -> list[Keeps]:
    """What is left of them after that row."""
    rest = [one for one in jobs if one.job_id >= row.job_id]
    return [
        replace(one, since=row.scheduled_for, after=row.id) if one.job_id == row.job_id else one
        for one in rest
    ]


def prunable(job: Job, cutoff: datetime) -> OccurrenceQuerySet:
    """What would go, all of it: ask for it where waiting is no matter, or bound it."""
    rows = Occurrence.objects.filter(job=job, scheduled_for__lt=cutoff, state__in=OCCURRENCE_FINAL)
    dead = TaskRun.objects.dead().filter(occurrence=OuterRef("pk"))
    return rows.filter(~Exists(dead), finished_at__lt=cutoff, finalized_at__isnull=False)


@dataclass(frozen=True)
class Outlook:
    """How many rows would go, of so many looked at; `more`: there are rows nobody looked at."""

    count: int = 0
    more: bool = False
    jobs: int = 0
    first: datetime | None = None
    last: datetime | None = None


def outlook(jobs: Sequence[Keeps], most: int) -> Outlook:
    """At the price of `most` rows at most, however many there are."""
    cutoffs = {one.job_id: one.cutoff for one in jobs}
    rows = oldest(jobs, most)
    over = [row for row in rows if row.over(cutoffs[row.job_id])]
    dead = dead_letters_of(row.id for row in over)
    going = [row for row in over if row.id not in dead]
    return Outlook(
        count=len(going),
        more=len(rows) == most,
        jobs=len({row.job_id for row in going}),
        first=min((row.scheduled_for for row in going), default=None),
        last=max((row.reached for row in going), default=None),
    )
