"""Derive the instants a job owed from its version history. Pure.

A definition owes its instants while it was current and enabled: after the moment it was stored, up to and
including the moment the next one was stored. A graceful edit counts from the instant it kept. An edit by raw
SQL becomes a version when its job is planned; the moment is known only for the last such edit before that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from punctual.jobs.config.policy import is_suspended
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import PunctualError
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job, JobVersion
from punctual.jobs.store.raw_edits import AUTHOR as RAW_SQL
from punctual.schedules import FixedDelay, Schedule, ScheduleError

MICROSECOND = timedelta(microseconds=1)
PLANNED_FIELDS = ("schedule", "config", "enabled")


@dataclass(frozen=True)
class Segment:
    """Owes the instants of its schedule in (start, end]. If not `known`, which ones cannot be determined.

    A suspended schedule owes them as skipped, like a pause; `suspended_at` is when it was stored.
    """

    version: int
    schedule: Schedule | None
    start: datetime
    end: datetime
    known: bool = True
    suspended_at: datetime | None = None

    def names(self, instant: datetime) -> bool:
        """Whether its schedule has this instant, in force or not."""
        if self.schedule is None:
            return False
        return self.schedule.next_after(instant - MICROSECOND) == instant


def segments(job: Job, versions: Sequence[JobVersion], current: Definition, until: datetime) -> list[Segment]:
    """One segment per version, in order; `current` is the definition in the job's row today."""
    anchors = _anchors(job, versions)
    parts = [
        _segment(job, row, following, until, anchors[row.number])
        for row, following in pairwise([*versions, None])
        if row
    ]
    if _edited_without_version(job, versions, current):
        start = versions[-1].created_at if versions else job.created_at
        edited_at = min(max(job.updated_at, start), until)
        previous = parts[-1].schedule if parts else None
        schedule = _schedule(job, current, job.anchored_at)
        known = not isinstance(schedule, FixedDelay)
        parts = [
            *parts[:-1],
            Segment(job.version, previous, start, edited_at, known=False),
            Segment(job.version, schedule, edited_at, until, known, edited_at if job.suspended else None),
        ]
    return parts


def owed_instants(parts: Sequence[Segment], since: datetime, until: datetime) -> Iterator[datetime]:
    """Strictly increasing, because the segments follow each other."""
    for part in parts:
        start, end = max(part.start, since), min(part.end, until)
        if part.known and part.schedule is not None and start < end:
            yield from part.schedule.between(start, end)


def _edited_without_version(job: Job, versions: Sequence[JobVersion], current: Definition) -> bool:
    if job.removed:
        return False
    return not versions or versions[-1].after != current.to_json()


def _anchors(job: Job, versions: Sequence[JobVersion]) -> dict[int, datetime | None]:
    """When the schedule of each version was written, which the row knows of the last; None: with the job."""
    anchors: dict[int, datetime | None] = {}
    anchor: datetime | None = None
    for row, previous in zip(versions, [None, *versions], strict=False):
        if previous is not None and previous.after.get("schedule") != row.after.get("schedule"):
            anchor = row.created_at
        if job.anchored_at is not None and job.anchored_at <= row.created_at:
            anchor = job.anchored_at
        anchors[row.number] = anchor
    return anchors


def _segment(
    job: Job, row: JobVersion, following: JobVersion | None, until: datetime, anchor: datetime | None
) -> Segment:
    end = following.created_at if following else until
    start = min(max(row.counts_from or row.created_at, row.created_at), end)
    try:
        definition = Definition.load(row.after)
        schedule = _schedule(job, definition, anchor)
    except PunctualError:  # a setting of an older release, whose meaning is unknown
        return Segment(row.number, None, start, end, known=False)
    # The instants of a fixed delay depend on when runs ended: they cannot be computed.
    known = _unbroken(row, following) and not isinstance(schedule, FixedDelay)
    suspended_at = row.created_at if is_suspended(definition.schedule) else None
    return Segment(row.number, schedule, start, end, known, suspended_at)


def _unbroken(row: JobVersion, following: JobVersion | None) -> bool:
    """False when an edit by raw SQL ended the version: how far it was planned by then is not known."""
    if following is None:
        return True
    if following.author != RAW_SQL:
        return bool(following.before == row.after)
    return all(row.after.get(name) == following.after.get(name) for name in PLANNED_FIELDS)


def _schedule(job: Job, definition: Definition, anchor: datetime | None) -> Schedule | None:
    if definition.enabled is False or job.origin == "polling":
        return None
    config = dict(definition.config)
    try:
        return schedule_of(
            Job(
                name=job.name,
                schedule=definition.schedule,
                config=config,
                created_at=job.created_at,
                anchored_at=anchor,
            )
        )
    except (ScheduleError, PunctualError):
        return None
