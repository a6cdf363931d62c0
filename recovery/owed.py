"""A job's versions → the instants it owed, as a stream. Pure.

Each definition owes its instants while it was the current one and switched on: after the moment it
was stored, up to and including the moment of the next. A graceful edit counts from the instant it
kept. What an edit by raw SQL changed is known from the moment of the last such edit on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from jobs.definition import Definition
from jobs.errors import PunctualError
from jobs.models import Job, JobVersion
from jobs.scheduling import schedule_of
from jobs.store import REMOVED
from schedules import FixedDelay, Schedule, ScheduleError

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Segment:
    """Owes the instants in (start, end]; without a schedule none. Not `known`: nobody can tell which."""

    version: int
    schedule: Schedule | None
    start: datetime
    end: datetime
    known: bool = True

    def names(self, instant: datetime) -> bool:
        """Whether its schedule has this instant at all, in force or not."""
        if self.schedule is None:
            return False
        return self.schedule.next_after(instant - MICROSECOND) == instant


def segments(job: Job, versions: Sequence[JobVersion], current: Definition, until: datetime) -> list[Segment]:
    """`versions` in their order; `current` is what the job's row says today."""
    found = [_segment(job, row, following, until) for row, following in pairwise([*versions, None]) if row]
    if _edited_behind_the_versions(job, versions, current):
        start = versions[-1].created_at if versions else job.created_at
        moment = min(max(job.updated_at, start), until)
        old = found[-1].schedule if found else None
        found = [*found[:-1], Segment(job.version, old, start, moment, known=False)]
        schedule = _schedule(job, current)
        certain = not isinstance(schedule, FixedDelay)
        found.append(Segment(job.version, schedule, moment, until, known=certain))
    return found


def owed(pieces: Sequence[Segment], since: datetime, until: datetime) -> Iterator[datetime]:
    """Strictly increasing: the pieces follow each other."""
    for piece in pieces:
        start, end = max(piece.start, since), min(piece.end, until)
        if piece.known and piece.schedule is not None and start < end:
            yield from piece.schedule.between(start, end)


def _edited_behind_the_versions(job: Job, versions: Sequence[JobVersion], current: Definition) -> bool:
    if job.removed:
        return False
    return not versions or versions[-1].after != current.dumped()


def _segment(job: Job, row: JobVersion, following: JobVersion | None, until: datetime) -> Segment:
    end = following.created_at if following else until
    start = min(max(row.counts_from or row.created_at, row.created_at), end)
    try:
        schedule = _schedule(job, Definition.load(row.after))
    except PunctualError:  # a setting of an older release; it cannot be told what it meant
        return Segment(row.number, None, start, end, known=False)
    # What a fixed delay names depends on when runs ended: the calendar owes nothing.
    known = _unbroken(row, following) and not isinstance(schedule, FixedDelay)
    return Segment(row.number, schedule, start, end, known=known)


def _unbroken(row: JobVersion, following: JobVersion | None) -> bool:
    """False when the next change found another definition than this one: raw SQL came between."""
    return following is None or row.reason == REMOVED or following.before == row.after


def _schedule(job: Job, item: Definition) -> Schedule | None:
    if item.enabled is False or job.origin == "polling":
        return None
    try:
        return schedule_of(
            Job(name=job.name, schedule=item.schedule, config=dict(item.config), created_at=job.created_at)
        )
    except (ScheduleError, PunctualError):
        return None
