"""The schedule of a job: as a value, in words, and its next fires."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

from django.db import transaction

from punctual import schedules
from punctual.jobs.config.cascade import Config, job_config
from punctual.jobs.models import Job
from punctual.schedules.kinds import is_custom
from punctual.schedules.wall_clock.zones import Zone

DEFAULT_FIRES = 10
SECOND, MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
PREFIXED = ":"  # only a text with a colon can have the prefix of a kind
RELATIVE = "@"  # only a text with this sign can depend on the job


@dataclass(frozen=True)
class Fire:
    """`note` says what the wall clock does at that instant, if anything: a DST change."""

    instant: datetime
    note: str = ""


@dataclass(frozen=True)
class ScheduleSummary:
    """A schedule in words and its next fires; or `problem`, if raw SQL has made it unreadable."""

    words: str = ""
    fires: tuple[Fire, ...] = ()
    problem: str = ""


def schedule_of(job: Job, config: Config | None = None) -> schedules.Schedule:
    """Return the schedule as a value."""
    timezone = (config or job_config(job)).timezone
    if PREFIXED in job.schedule:
        # Not cached: a user's own kind may read anything when it parses.
        return schedules.parse(
            job.schedule, reference=reference_of(job), timezone=timezone, trigger_id=job.name
        )
    if RELATIVE in job.schedule:
        return _chronex(job.schedule, timezone, reference_of(job), job.name)
    return _chronex(job.schedule, timezone)  # shared by all jobs with the same text


@lru_cache(maxsize=16_384)
def _chronex(
    text: str, timezone: str, reference: datetime | None = None, name: str = ""
) -> schedules.Schedule:
    return schedules.parse(text, reference=reference, timezone=timezone, trigger_id=name)


def reference_of(job: Job) -> datetime:
    """What the schedule counts from: `@once +1h` from the edit that wrote it, intervals from the creation."""
    is_once = "@once" in job.schedule.lower()
    return job.anchored_at if is_once and job.anchored_at else job.created_at


def user_code(job: Job) -> AbstractContextManager[Any]:
    """Planning calls the code of a custom kind within this: its failed statements spoil nothing else."""
    return transaction.atomic() if is_custom(job.schedule) else nullcontext()


def upcoming(job: Job, after: datetime, count: int) -> list[datetime]:
    """Return the next instants of the schedule, at most `count`."""
    return list(islice(_instants(schedule_of(job), after), count))


def schedule_summary(job: Job, after: datetime, count: int = DEFAULT_FIRES) -> ScheduleSummary:
    """Describe the schedule and list its next fires; never raises."""
    try:
        schedule = schedule_of(job)
        fires = [Fire(instant, _note(schedule, instant)) for instant in upcoming(job, after, count)]
        return ScheduleSummary(schedules.describe(schedule), tuple(fires))
    except Exception as error:  # noqa: BLE001 - raw SQL can store any text, and a custom kind is user code
        return ScheduleSummary(problem=f"{type(error).__name__}: {error}")


def schedule_warnings(job: Job, after: datetime) -> list[str]:
    """List what is valid in the schedule and probably not intended."""
    return [finding.message for finding in schedules.lint(schedule_of(job), reference=after)]


def is_within_bounds(schedule: schedules.Schedule, now: datetime) -> bool:
    """Whether `now` lies between the schedule's start and end; without an end, until its last instant."""
    first = getattr(schedules.unbounded(schedule), "start", None)  # an ISO 8601 interval has its own
    if not schedules.is_within(schedule, now) or (first is not None and now < first):
        return False
    options = getattr(schedule, "options", schedules.Options())
    has_end = (getattr(schedule, "end", None) or options.until) is not None
    return has_end or schedule.next_after(now - MICROSECOND) is not None


def make_absolute(text: str, *, timezone: str | None, now: datetime) -> str:
    """Replace a relative instant: `@once +20m`, read now, is stored as the instant in twenty minutes."""
    parsed = schedules.parse(text, reference=now, timezone=timezone)
    relative = isinstance(parsed, schedules.Expression) and _depends_on_now(text, timezone, now)
    return str(parsed) if relative else text


def _depends_on_now(text: str, timezone: str | None, now: datetime) -> bool:
    readings = {str(schedules.parse(text, reference=at, timezone=timezone)) for at in (now, now + SECOND)}
    return len(readings) > 1


def _instants(schedule: schedules.Schedule, after: datetime) -> Iterator[datetime]:
    while (instant := schedule.next_after(after)) is not None:
        yield instant
        after = instant


def _note(schedule: schedules.Schedule, instant: datetime) -> str:
    zone = getattr(schedule, "zone", None)
    mark = zone.mark_at(instant) if isinstance(zone, Zone) else None
    return "" if mark is None else mark.value
