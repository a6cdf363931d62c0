"""Instants skipped while a job was paused → run after all, as the operator chooses (JOB-8).

A skipped row stays what it is. What runs is a new occurrence linked to it, whose id follows from its
parent's: resuming twice makes it once.
"""

from collections.abc import Sequence
from datetime import datetime

from jobs.models import Job
from jobs.scheduling import job_config
from occurrences.ids import repeat_id
from occurrences.materialize import create_missing, new_occurrence
from occurrences.models import Cause, Occurrence
from occurrences.states import OccurrenceState

MOST = 10_000


def run_skipped(job: Job, *, choice: str, since: datetime, now: datetime) -> int:
    """How many occurrences were made: for `last` and `compressed` at most one."""
    rows = Occurrence.objects.filter(
        job=job, state=OccurrenceState.SKIPPED, reason="paused", finished_at__gte=since
    )
    newest = list(rows.order_by("-scheduled_for")[:MOST])
    parents = newest[::-1] if choice == "all" else newest[:1]
    covered = newest[::-1] if choice == "compressed" else []
    made = [_repeat(job, parent, covered, now) for parent in parents]
    create_missing(made)
    return len(made)


def _repeat(job: Job, parent: Occurrence, covered: Sequence[Occurrence], now: datetime) -> Occurrence:
    made = new_occurrence(
        job,
        job_config(job),
        scheduled_for=parent.scheduled_for,
        run_at=now,
        now=now,
        cause=Cause.RECOVERY,
        parent=parent,
        covers=span(covered) if covered else None,
    )
    made.id = repeat_id(parent.id, 0)
    return made


def span(covered: Sequence[Occurrence]) -> dict[str, object]:
    instants = [row.scheduled_for.isoformat() for row in covered]
    return {"from": instants[0], "until": instants[-1], "instants": instants}
