"""Now → what waits for the safety net at this moment, by kind, counted; nothing is done.

No question counts further than `FURTHEST`, so that whoever looks after a long outage is answered, too.
"""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from jobs.models import Job
from occurrences.models import Cursor, Occurrence, TaskRun
from recovery.models import Action
from recovery.replaced import replaced
from recovery.resend import lost_messages, unconfirmed
from recovery.unsettled import unfinalized, unsettled
from recovery.waiting import stranded

FURTHEST = 10_000
Counts = dict[str, int]


def behind(now: datetime, job: Job | None = None) -> Counts:
    """Of all jobs, or of one: `jobs` that are behind, because they are `to_plan` or have `late` rows."""
    late = Occurrence.objects.due(now).late(now)
    to_plan = Cursor.objects.due(now)
    if job:
        late, to_plan = late.filter(job=job), to_plan.filter(job=job)
    jobs = late.order_by().values_list("job_id").union(to_plan.order_by().values_list("job_id"))
    return {"jobs": counted(jobs), "to_plan": counted(to_plan), "late": counted(late)}


def abandoned(now: datetime, _job: Job | None = None) -> Counts:
    return _swept(now, unsent(now), owed(now))


def _swept(now: datetime, sending: Counts, settling: Counts) -> Counts:
    return {
        "lost": counted(TaskRun.objects.expired(now)),
        "stale": counted(Occurrence.objects.overdue(now)),
        "replaced": counted(replaced()),
        "admitted": counted(stranded()),
        "resent": sum(sending.values()),
        "asked": sum(settling.values()),
    }


def everything(now: datetime) -> dict[Action, Counts]:
    """For all chores, each question asked once."""
    sending, settling = unsent(now), owed(now)
    return {
        Action.RECOVER: behind(now),
        Action.REAP: _swept(now, sending, settling),
        Action.RESEND: sending,
        Action.SETTLE: settling,
    }


def unsent(now: datetime, _job: Job | None = None) -> Counts:
    """`unconfirmed` by the broker, or accepted by it and `lost` since."""
    lost = lost_messages(now, limit=FURTHEST)
    return {"unconfirmed": counted(unconfirmed(now)), "lost": len(lost)}


def owed(now: datetime, _job: Job | None = None) -> Counts:
    """Occurrences whose next step nobody took, and those whose hooks nobody called."""
    return {"unsettled": counted(unsettled(now)), "hooks": counted(unfinalized(now))}


def counted(rows: QuerySet[Any, Any]) -> int:
    return rows.order_by()[:FURTHEST].count()
