"""Count what the sweeper would find now, by kind, without changing anything.

No count exceeds MAX_COUNTED, so that a page answers quickly after a long outage too.
"""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor, Occurrence, TaskRun
from punctual.recovery.sweeper.free_slots import stranded_occurrences
from punctual.recovery.sweeper.replacement import replaced_occurrences
from punctual.recovery.sweeper.resend import lost_messages, unconfirmed_runs
from punctual.recovery.sweeper.settlement import unfinalized_occurrences, unsettled_occurrences

MAX_COUNTED = 10_000
Counts = dict[str, int]


def count_late(now: datetime, job: Job | None = None) -> Counts:
    """Count `jobs` that are late: with unplanned instants (`to_plan`) or with `late` occurrences."""
    late = Occurrence.objects.due(now).late(now)
    to_plan = Cursor.objects.due(now)
    if job:
        late, to_plan = late.filter(job=job), to_plan.filter(job=job)
    jobs = late.order_by().values_list("job_id").union(to_plan.order_by().values_list("job_id"))
    return {"jobs": _count(jobs), "to_plan": _count(to_plan), "late": _count(late)}


def count_abandoned(now: datetime, _job: Job | None = None) -> Counts:
    """Count everything that a whole sweep would change."""
    return _count_sweep(now, count_unsent(now), count_unsettled(now))


def count_unsent(now: datetime, _job: Job | None = None) -> Counts:
    """Count messages that the broker did not confirm, or confirmed and lost."""
    lost = lost_messages(now, limit=MAX_COUNTED)
    return {"unconfirmed": _count(unconfirmed_runs(now)), "lost": len(lost)}


def count_unsettled(now: datetime, _job: Job | None = None) -> Counts:
    """Count ended occurrences whose next step is missing, and those whose hooks were not called."""
    return {"unsettled": _count(unsettled_occurrences(now)), "hooks": _count(unfinalized_occurrences(now))}


def count_all(now: datetime) -> dict[str, Counts]:
    """Count for all sweeps, by name; each query runs once."""
    unsent, unsettled = count_unsent(now), count_unsettled(now)
    return {
        "recover": count_late(now),
        "reap": _count_sweep(now, unsent, unsettled),
        "resend": unsent,
        "settle": unsettled,
    }


def _count_sweep(now: datetime, unsent: Counts, unsettled: Counts) -> Counts:
    return {
        "lost": _count(TaskRun.objects.expired(now)),
        "stale": _count(Occurrence.objects.overdue(now)),
        "replaced": _count(replaced_occurrences()),
        "admitted": _count(stranded_occurrences()),
        "resent": sum(unsent.values()),
        "asked": sum(unsettled.values()),
    }


def _count(rows: QuerySet[Any, Any]) -> int:
    return rows.order_by()[:MAX_COUNTED].count()
