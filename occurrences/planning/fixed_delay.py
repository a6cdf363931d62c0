"""Plan jobs with a fixed delay: the next instant counts from the end of the last occurrence (TSK-7).

Such a job has no pending row while an occurrence of it is open. Planning looks for the end often enough that
the next row exists before its time, whichever process ended the occurrence. Nothing accumulates while the
workers are down.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import OuterRef, Subquery

from punctual.occurrences.models import Cause, Cursor, Occurrence
from punctual.occurrences.planning.cursors import PlanCursor
from punctual.occurrences.planning.instants import Plan
from punctual.schedules import FixedDelay
from punctual.schedules.kinds import split_kind

MIN_LOOK_INTERVAL, MAX_LOOK_INTERVAL = timedelta(seconds=1), timedelta(seconds=10)
PREFIX = "delay"


def is_fixed_delay(text: str) -> bool:
    """Whether a schedule text is of this kind, without parsing it: a batch has a thousand of them."""
    return text[: len(PREFIX)].lower() == PREFIX and split_kind(text)[0] == PREFIX


def last_ends(cursors: Iterable[PlanCursor]) -> dict[UUID, datetime | None]:
    """When the newest occurrence of each fixed-delay job ended; None while it is open.

    One statement for all jobs. Jobs that never ran are left out; manual runs and replays do not count.
    """
    jobs = [cursor.job_id for cursor in cursors if is_fixed_delay(cursor.job.schedule)]
    return _ends(jobs) if jobs else {}


def _ends(jobs: Collection[UUID]) -> dict[UUID, datetime | None]:
    own = Occurrence.objects.filter(job=OuterRef("job_id"), cause__in=(Cause.SCHEDULE, Cause.RECOVERY))
    newest = own.order_by("-scheduled_for").values("id")[:1]
    ids = Cursor.objects.filter(job__any=jobs).values_list(Subquery(newest), flat=True)
    rows = Occurrence.objects.filter(id__in=[id_ for id_ in ids if id_ is not None])
    return dict(rows.values_list("job_id", "finished_at"))


def plan_after_end(schedule: FixedDelay, *, start: datetime, ended: datetime | None, now: datetime) -> Plan:
    """The one instant that follows; `ended` is `start` for a job that never ran, None while one is open."""
    look_again_at = now + min(max(schedule.delay / 4, MIN_LOOK_INTERVAL), MAX_LOOK_INTERVAL)
    if ended is None:
        return Plan((), start, look_again_at)
    instant = schedule.next_after(max(ended, start))
    if instant is None:
        return Plan((), start, None)
    return Plan((instant,), instant, max(instant, look_again_at))
