"""Jobs with a fixed delay → when their last run ended, which is what their next instant counts from (TSK-7).

Their next occurrence is not a matter of the calendar: there is none while one is open, and afterwards it
follows the end of that one. So nothing piles up while nobody runs them. The end is looked for often enough
that the next row is there before its time: how a run ended, and who saw it end, does not matter.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import OuterRef, Subquery

from occurrences.models import Cause, Cursor, Occurrence
from occurrences.planning import Plan
from schedules import FixedDelay
from schedules.registry import split_kind

OFTEN, SELDOM = timedelta(seconds=1), timedelta(seconds=10)
PREFIX = "delay"


def rests(text: str) -> bool:
    """Asked of the text: parsing every schedule of a batch for this would cost more than planning it."""
    return text[: len(PREFIX)].lower() == PREFIX and split_kind(text)[0] == PREFIX


def last_ends(cursors: Iterable[Cursor]) -> dict[UUID, datetime | None]:
    """One statement for all of them: when each job's newest run ended; None while it is open. A job that
    never ran is left out. Runs by hand and repetitions are beside the schedule, and do not count."""
    jobs = [cursor.job_id for cursor in cursors if rests(cursor.job.schedule)]
    return _ends(jobs) if jobs else {}


def _ends(jobs: Collection[UUID]) -> dict[UUID, datetime | None]:
    own = Occurrence.objects.filter(job=OuterRef("job_id"), cause__in=(Cause.SCHEDULE, Cause.RECOVERY))
    newest = own.order_by("-scheduled_for").values("id")[:1]
    ids = Cursor.objects.filter(job__any=jobs).values_list(Subquery(newest), flat=True)
    rows = Occurrence.objects.filter(id__in=[id_ for id_ in ids if id_ is not None])
    return dict(rows.values_list("job_id", "finished_at"))


def plan_rest(schedule: FixedDelay, *, start: datetime, ended: datetime | None, now: datetime) -> Plan:
    """The one instant that follows; `ended` is `start` for a job that never ran, None while one is open."""
    again = now + min(max(schedule.delay / 4, OFTEN), SELDOM)
    if ended is None:
        return Plan((), start, again)
    instant = schedule.next_after(max(ended, start))
    return Plan((), start, None) if instant is None else Plan((instant,), instant, max(instant, again))
