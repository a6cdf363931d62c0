"""Finished occurrences older than their job's retention → deleted, counted first (REC-6).

Counts and deletion are one transaction, so a counter that adds tallies to what is left never falls.
An instant does not come back: the cursor has passed it. Dead letters nobody has dealt with stay.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, Sum
from django.db.models.functions import Coalesce

from jobs.errors import PunctualError
from jobs.models import Job
from jobs.scheduling import job_config
from occurrences.models import Attempt, Cause, IdempotencyKey, Occurrence, OccurrenceQuerySet, TaskRun
from occurrences.states import OCCURRENCE_FINAL
from recovery.models import Counter, Pruned, Tally

BATCH = 1000
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Kept:
    """One job's retention, applied."""

    job: str
    cutoff: datetime
    pruned: int


def prune(
    job: Job, *, now: datetime, dry_run: bool = False, progress: Progress = lambda _count: None
) -> Kept | None:
    """None: the job keeps everything. Safe beside beats, workers and other prunes."""
    try:
        retention = job_config(job).retention
    except PunctualError:  # what is wrong with it is recorded by planning; nothing is deleted on a guess
        return None
    if retention is None:
        return None
    cutoff = now - retention
    old = _old(job, cutoff)
    if dry_run:
        return Kept(job.name, cutoff, old.count())
    total = 0
    while done := _prune_batch(job, old):
        total += done
        progress(done)
    return Kept(job.name, cutoff, total)


def _old(job: Job, cutoff: datetime) -> OccurrenceQuerySet:
    dead = TaskRun.objects.dead().filter(occurrence=OuterRef("pk"))
    rows = Occurrence.objects.filter(job=job, scheduled_for__lt=cutoff, state__in=OCCURRENCE_FINAL)
    return rows.filter(~Exists(dead), finished_at__lt=cutoff, finalized_at__isnull=False)


def _prune_batch(job: Job, old: OccurrenceQuerySet) -> int:
    with transaction.atomic():
        rows = old.order_by("scheduled_for", "id").select_for_update(of=("self",), skip_locked=True)
        ids = list(rows.values_list("id", flat=True)[:BATCH])
        if not ids:
            return 0
        _count(job, ids)
        reached = Occurrence.objects.filter(id__in=ids).aggregate(
            at=Max(Coalesce("spans_until", "scheduled_for"))
        )["at"]
        _remember(job, reached)
        _delete(ids)
    return len(ids)


def _count(job: Job, ids: Sequence[UUID]) -> None:
    gone = Occurrence.objects.filter(id__in=ids).order_by()
    attempts = Attempt.objects.filter(run__occurrence__in=ids).order_by()
    counted = [
        *_tallies(job, Counter.OCCURRENCES, gone.values_list("state").annotate(Sum("instants"))),
        *_tallies(
            job,
            Counter.RECOVERIES,
            gone.filter(cause=Cause.RECOVERY).values_list("config__recovery").annotate(Count("pk")),
        ),
        *_tallies(
            job, Counter.ATTEMPTS, attempts.values_list("run__task__name", "state").annotate(Count("pk"))
        ),
    ]
    Tally.objects.bulk_create(counted)


def _tallies(job: Job, counter: Counter, rows: Any) -> list[Tally]:
    return [
        Tally(
            job=job,
            counter=counter,
            task=key[0] if len(key) > 1 else "",
            label=key[-1] or "unknown",
            count=count,
        )
        for *key, count in rows
    ]


def _remember(job: Job, until: datetime) -> None:
    """Only ever forward. The row is made first, so that the guarded update always finds one."""
    Pruned.objects.bulk_create([Pruned(job=job, until=until)], ignore_conflicts=True)
    Pruned.objects.filter(job=job, until__lt=until).update(until=until)


def _delete(ids: Collection[UUID]) -> None:
    """Children first, without loading a row. What repeated one of them loses its link, not its life."""
    for rows in (
        Attempt.objects.filter(run__occurrence__in=ids),
        TaskRun.objects.filter(occurrence__in=ids),
        IdempotencyKey.objects.filter(occurrence__in=ids),
    ):
        rows._raw_delete(rows.db)  # noqa: SLF001 - Django's own fast path; nothing refers to these
    Occurrence.objects.filter(parent__in=ids).update(parent=None)
    gone = Occurrence.objects.filter(id__in=ids)
    gone._raw_delete(gone.db)  # noqa: SLF001
