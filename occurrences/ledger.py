"""What `jobs` needs of the ledger, in one place: connected to `jobs.ledger` when Django starts."""

from datetime import datetime

from django.db.models import Min

from jobs.models import Job
from occurrences.backlog import run_skipped
from occurrences.manual import trigger
from occurrences.materialize import plan_jobs
from occurrences.models import Occurrence
from occurrences.operator import reschedule, skip_next
from occurrences.states import OccurrenceState
from occurrences.update import preview, replan

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
    return Occurrence.objects.active().filter(job=job).exists()


def next_run(job: Job) -> datetime | None:
    pending = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING)
    found: datetime | None = pending.aggregate(at=Min("run_at"))["at"]
    return found
