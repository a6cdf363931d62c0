"""A job's row and an instant → its schedule in plain words and its next fires, with what clocks do then."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import schedules
from jobs.models import Job
from jobs.scheduling import schedule_of, upcoming
from schedules.zones import Zone

FIRES = 10
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Fire:
    """`note` says what is odd about the wall clock at that instant; empty on ordinary days."""

    instant: datetime
    note: str = ""


@dataclass(frozen=True)
class Timing:
    """`problem` is why there are no words: a row that raw SQL spoiled still has a page."""

    words: str = ""
    fires: tuple[Fire, ...] = ()
    problem: str = ""


def timing(job: Job, after: datetime, count: int = FIRES) -> Timing:
    """Intervals count from the job's creation, so the fires are the job's own, not the text's."""
    try:
        schedule = schedule_of(job)
        fires = [Fire(instant, _note(schedule, instant)) for instant in upcoming(job, after, count)]
        return Timing(schedules.describe(schedule), tuple(fires))
    except Exception as error:  # noqa: BLE001 - rows are edited by any road, and a kind may be user code
        return Timing(problem=f"{type(error).__name__}: {error}")


def doubts(job: Job, after: datetime) -> list[str]:
    """What is valid and was probably not meant."""
    return [finding.message for finding in schedules.lint(schedule_of(job), reference=after)]


def absolute(text: str, *, timezone: str | None, now: datetime) -> str:
    """`@once +20m` means twenty minutes from now; as a row it must go on meaning that instant."""
    parsed = schedules.parse(text, reference=now, timezone=timezone)
    relative = isinstance(parsed, schedules.Expression) and _moves(text, timezone, now)
    return str(parsed) if relative else text


def _moves(text: str, timezone: str | None, now: datetime) -> bool:
    readings = {str(schedules.parse(text, reference=at, timezone=timezone)) for at in (now, now + SECOND)}
    return len(readings) > 1


def _note(schedule: schedules.Schedule, instant: datetime) -> str:
    zone = getattr(schedule, "zone", None)
    mark = zone.mark_at(instant) if isinstance(zone, Zone) else None
    return "" if mark is None else mark.value
