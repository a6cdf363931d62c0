"""Now → the next few rows older than their job's retention deleted; beats call it in every sweep (REC-6).

Together the beats walk through all jobs, in the order of their ids, and through the old rows of each: the
place they have come to is a row, which whoever goes on holds, and the others leave to them. A step looks
at so many jobs and so many rows at most, so that no tick waits for it, and does the same few statements
whatever it finds. A round begins a minute after the one before it began, and most sweeps only read when.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from jobs.events import Event, emit
from jobs.models import Job
from jobs.scheduling import platform
from recovery.erasing import erase
from recovery.models import PruneRound
from recovery.oldest import BEGINNING, NOBODY, Keeps, Old, oldest
from recovery.retention import cutoff_of

EVERY = timedelta(minutes=1)
JOBS, ROWS = 500, 250
ONLY = 1


def prune_some(now: datetime, *, jobs: int = JOBS, rows: int = ROWS) -> int:
    due = PruneRound.objects.filter(pk=ONLY).values_list("due_at", flat=True).first()
    if due is None:
        PruneRound.objects.bulk_create([PruneRound(pk=ONLY, due_at=now, began_at=now)], ignore_conflicts=True)
    elif due > now:
        return 0
    with transaction.atomic():
        turn = PruneRound.objects.filter(pk=ONLY, due_at__lte=now).select_for_update(skip_locked=True).first()
        gone = {} if turn is None else _step(turn, now, jobs, rows)
    count = sum(gone.values())
    if count:
        emit(Event.OCCURRENCES_PRUNED, jobs=len(gone), occurrences=count)
    return count


def _step(turn: PruneRound, now: datetime, most_jobs: int, most_rows: int) -> dict[UUID, int]:
    page, following = _page(turn, most_jobs)
    jobs = _keeping(page, turn, now)
    rows = oldest(jobs, most_rows)
    cutoffs = {one.job_id: one.cutoff for one in jobs}
    gone = erase([row for row in rows if row.over(cutoffs[row.job_id])], waits=False)
    if len(rows) == most_rows:
        _go_on(turn, now, rows[-1].job_id, rows[-1])
    else:
        _go_on(turn, now, following)
    return gone


def _page(turn: PruneRound, most: int) -> tuple[list[Job], UUID | None]:
    """The jobs this step may look at, and the one the next step begins with."""
    rows = Job.objects.order_by("id").only("id", "name", "config")
    found = list((rows.filter(id__gte=turn.job) if turn.job else rows)[: most + 1])
    return found[:most], found[most].id if len(found) > most else None


def _keeping(page: Sequence[Job], turn: PruneRound, now: datetime) -> list[Keeps]:
    everywhere = "retention" in platform()
    found = []
    for job in page:
        # Most jobs say nothing about it; what they say otherwise need not be read.
        said = everywhere or (isinstance(job.config, dict) and "retention" in job.config)
        cutoff = cutoff_of(job, now) if said else None
        if cutoff is not None and job.id == turn.job:
            found.append(Keeps(job.id, cutoff, since=turn.at or BEGINNING, after=turn.row or NOBODY))
        elif cutoff is not None:
            found.append(Keeps(job.id, cutoff))
    return found


def _go_on(turn: PruneRound, now: datetime, job: UUID | None, row: Old | None = None) -> None:
    """In the next sweep, or, once every job has had its turn, in the next round."""
    turn.job, turn.at, turn.row = job, row and row.scheduled_for, row and row.id
    turn.due_at = now if job else max(turn.began_at + EVERY, now)
    if job is None:
        turn.began_at = turn.due_at
    turn.save()
