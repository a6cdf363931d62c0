"""The `max` option of a schedule: how many starts a job has had, and how many are left."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import Case, F, Value, When

from punctual.jobs.errors import PunctualError
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.database.arrays import Ids
from punctual.occurrences.models import Cause, Cursor
from punctual.schedules import Expression, Schedule, ScheduleError


def starts_left(schedule: Schedule, starts: int) -> int | None:
    """How many more starts `max` allows; None: any number."""
    limit = schedule.options.max if isinstance(schedule, Expression) else None
    return None if limit is None else max(limit - starts, 0)


def starts_left_by_job(rows: Iterable[Due], starts: dict[str, int]) -> dict[str, int]:
    """Only jobs with a `max`; `starts` comes from their locked cursors."""
    # A schedule with the option contains its name, so the many others need no parsing.
    jobs = {row.job_id for row in rows if "max" in row.schedule.lower()}
    left: dict[str, int] = {}
    for job in Job.objects.filter(id__any=jobs) if jobs else ():
        try:
            count = starts_left(schedule_of(job), starts[str(job.id)])
        except (ScheduleError, PunctualError):
            continue  # planning records what is wrong with it
        if count is not None:
            left[str(job.id)] = count
    return left


def counts_as_start(row: Due) -> bool:
    """Whether `max` counts it: manual runs, replays and backfills are not starts of the schedule."""
    return row.cause in (Cause.SCHEDULE, Cause.RECOVERY)


def count_starts(opened: Iterable[Due]) -> None:
    """Add these starts to the cursors, which the caller holds; one statement for all of them."""
    starts = Counter(row.job_id for row in opened if counts_as_start(row))
    if starts:
        more = Case(*(When(job_id=job, then=Value(count)) for job, count in starts.items()))
        Cursor.objects.filter(job__any=Ids(starts)).update(starts=F("starts") + more)
