"""The functions of the ledger that `punctual.jobs` calls; connected when Django starts."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import Min

from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.occurrences.operator import reschedule, skip_next, trigger
from punctual.occurrences.planning import materialize
from punctual.occurrences.planning.pauses import end_pauses, pause, resume
from punctual.occurrences.planning.replan import preview, replan
from punctual.occurrences.states import OccurrenceState

__all__ = [
    "is_running",
    "next_run",
    "pause",
    "plan_jobs",
    "preview",
    "replan",
    "reschedule",
    "resume",
    "skip_next",
    "trigger",
]


def plan_jobs(jobs: Collection[UUID], *, now: datetime) -> None:
    """Plan these jobs up to now before their definition changes: what the old one owed stays owed."""
    over = Job.objects.filter(id__in=jobs, paused_until__lte=now)
    end_pauses(list(over.values_list("id", flat=True)), now=now)
    materialize.plan_jobs(jobs, now=now)


def is_running(job: Job) -> bool:
    """Whether an occurrence of the job is active."""
    return Occurrence.objects.active().filter(job=job).exists()


def next_run(job: Job) -> datetime | None:
    """When the next planned occurrence starts."""
    pending = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING)
    run_at: datetime | None = pending.aggregate(at=Min("run_at"))["at"]
    return run_at
