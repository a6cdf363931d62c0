"""Find the finished occurrences that are older than their job's retention (REC-6).

A search continues after the row it looked at last. Rows that must stay, such as unresolved dead letters, are
looked at once per round and passed, so a step costs no more than its rows and one index lookup per job.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef

from punctual.jobs.config.cascade import job_config
from punctual.jobs.errors import PunctualError
from punctual.jobs.models import Job
from punctual.occurrences.engines.contract import Cutoff
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import OCCURRENCE_FINAL

COLUMNS = ("id", "job_id", "scheduled_for", "spans_until", "state", "finished_at", "finalized_at")


class OldRow(NamedTuple):
    id: UUID
    job_id: UUID
    scheduled_for: datetime
    spans_until: datetime | None
    state: str
    finished_at: datetime | None
    finalized_at: datetime | None

    def is_expired(self, cutoff: datetime) -> bool:
        """Whether it finished before the cutoff and its hooks were called; only a dead letter can keep it."""
        ended = self.finished_at is not None and self.finished_at < cutoff
        return ended and self.finalized_at is not None and self.state in OCCURRENCE_FINAL

    @property
    def last_instant(self) -> datetime:
        return self.spans_until or self.scheduled_for


def cutoff_of(job: Job, now: datetime) -> datetime | None:
    """The instant before which finished occurrences may go; None when the job keeps everything."""
    try:
        retention = job_config(job).retention
        return None if retention is None else now - retention
    except PunctualError:  # planning records the invalid configuration; nothing is deleted on a guess
        return None


def job_cutoffs(jobs: Iterable[Job], now: datetime) -> list[Cutoff]:
    """Cutoffs of those jobs that do not keep everything."""
    cutoffs = ((job, cutoff_of(job, now)) for job in jobs)
    return [Cutoff(job.id, cutoff) for job, cutoff in cutoffs if cutoff is not None]


def oldest_rows(jobs: Sequence[Cutoff], limit: int) -> list[OldRow]:
    """The oldest rows in order of `jobs`, which must be sorted by id, and of the rows' instants."""
    if not jobs:
        return []
    return [OldRow(*row) for row in engine().oldest_rows(jobs, COLUMNS, limit)]


def with_dead_letters(ids: Iterable[UUID]) -> set[UUID]:
    """Those of the occurrences that must stay because a dead letter of theirs is unresolved."""
    dead = TaskRun.objects.dead().filter(occurrence__any=list(ids)).order_by()
    return set(dead.values_list("occurrence_id", flat=True))


def prunable(job: Job, cutoff: datetime) -> OccurrenceQuerySet:
    """Every occurrence of the job that may go. Unbounded: slice it where the answer must be fast."""
    rows = Occurrence.objects.filter(job=job, scheduled_for__lt=cutoff, state__in=OCCURRENCE_FINAL)
    dead = TaskRun.objects.dead().filter(occurrence=OuterRef("pk"))
    return rows.filter(~Exists(dead), finished_at__lt=cutoff, finalized_at__isnull=False)


@dataclass(frozen=True)
class PrunePreview:
    """How many of the rows looked at would go; `more` when there are rows beyond the limit."""

    count: int = 0
    more: bool = False
    jobs: int = 0
    first: datetime | None = None
    last: datetime | None = None


def preview_pruning(jobs: Sequence[Cutoff], limit: int) -> PrunePreview:
    """Look at `limit` rows at most."""
    cutoffs = {job.job_id: job.cutoff for job in jobs}
    rows = oldest_rows(jobs, limit)
    expired = [row for row in rows if row.is_expired(cutoffs[row.job_id])]
    dead = with_dead_letters(row.id for row in expired)
    deletable = [row for row in expired if row.id not in dead]
    return PrunePreview(
        count=len(deletable),
        more=len(rows) == limit,
        jobs=len({row.job_id for row in deletable}),
        first=min((row.scheduled_for for row in deletable), default=None),
        last=max((row.last_instant for row in deletable), default=None),
    )
