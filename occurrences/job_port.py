"""The functions of the ledger that `punctual.jobs` calls; connected when Django starts."""

from datetime import datetime

from django.db.models import Min

from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence
from punctual.occurrences.operator import reschedule, skip_next, trigger
from punctual.occurrences.planning.materialize import plan_jobs
from punctual.occurrences.planning.paused_instants import run_skipped
from punctual.occurrences.planning.replan import preview, replan
from punctual.occurrences.states import OccurrenceState

__all__ = [
    "is_running",
    "next_run",
    "plan_jobs",
    "preview",
    "replan",
    "reschedule",
    "run_skipped",
    "skip_next",
    "trigger",
]


def is_running(job: Job) -> bool:
    """Whether an occurrence of the job is active."""
    return Occurrence.objects.active().filter(job=job).exists()


def next_run(job: Job) -> datetime | None:
    """When the next planned occurrence starts."""
    pending = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING)
    run_at: datetime | None = pending.aggregate(at=Min("run_at"))["at"]
    return run_at
