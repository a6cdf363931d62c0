"""Run instants that were skipped while a job was paused, as the operator chooses (JOB-8).

A skipped row stays as it is. What runs is a new occurrence linked to it, whose id follows from the row and
the instant, so resuming twice creates it once. The schedule lists the instants of a range row again.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from django.db.models import Max, Min, Sum
from django.db.models.functions import Coalesce

from punctual.jobs.config.cascade import job_config
from punctual.jobs.config.choices import Backlog, Overlap
from punctual.jobs.definition.document import Definition
from punctual.jobs.ids import occurrence_id, repeat_id
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job, JobVersion, Pause
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cause, Cursor, Occurrence
from punctual.occurrences.planning.cursors import line_up
from punctual.occurrences.planning.downtime import MAX_LISTED_INSTANTS
from punctual.occurrences.planning.instants import choose, reach_after
from punctual.occurrences.planning.new_rows import create_missing, is_plannable, new_occurrence
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import OccurrenceState, Reason
from punctual.schedules import FixedDelay, Schedule

MAX_REPEATED = 10_000
MICROSECOND = timedelta(microseconds=1)
MAX_COUNTED = 100_000  # instants without a row that a preview counts
SPAN = {
    "count": Sum("instants"),
    "first": Min("scheduled_for"),
    "last": Max(Coalesce("spans_until", "scheduled_for")),
}
TICK = timedelta(minutes=1)  # a beat that began its tick before the pause may skip with an older time


class Skipped(NamedTuple):
    """One skipped instant, and the row that records it."""

    at: datetime
    row: Occurrence


def run_skipped(job: Job, *, choice: str, since: datetime, now: datetime) -> int:
    """Create occurrences for what a pause skipped and return their number.

    `last` and `compressed` create at most one, `all` the newest MAX_REPEATED; these start in the order of
    their instants. Call in a transaction. Rows that are being pruned at the same time are left out.
    """
    if choice == Backlog.NONE:
        return 0
    rows = skipped_rows(job, since)
    newest = deque(_instants(job, _lock(rows)), maxlen=MAX_REPEATED)
    runs_all = choice == Backlog.ALL and not _keeps_latest(job)
    chosen = list(newest) if runs_all else list(newest)[-1:]
    covers = covered_span(rows, newest) if choice == Backlog.COMPRESSED and newest else None
    repeats = _repeats(job, chosen, covers, now)
    create_missing(repeats)
    line_up([job.id], now=now)
    return len(repeats)


@dataclass(frozen=True)
class Backlogged:
    """What resuming a job now would settle: how many instants, from when to when; with `more`, at least."""

    instants: int = 0
    first: datetime | None = None
    last: datetime | None = None
    more: bool = False
    keeps_latest: bool = False

    def runs(self, choice: str) -> int:
        """How many occurrences the choice creates."""
        if choice == Backlog.ALL and not self.keeps_latest:
            return min(self.instants, MAX_REPEATED)
        return 0 if choice == Backlog.NONE else min(self.instants, 1)


def preview_backlog(job: Job, now: datetime) -> Backlogged:
    """Count what the pause has skipped, and what it would skip if it ended now. Writes nothing."""
    if job.paused_at is None:
        return Backlogged()
    end = min(now, job.paused_until or now)
    skipped = skipped_rows(job, job.paused_at)
    pending = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING, run_at__lte=end)
    pending = pending.filter(cause__in=(Cause.SCHEDULE, Cause.RECOVERY))
    spans = [rows.aggregate(**SPAN) for rows in (skipped, pending)]
    count = sum(span["count"] or 0 for span in spans)
    bounds = [span[key] for span in spans for key in ("first", "last") if span[key] is not None]
    unplanned = list(islice(_unplanned(job, end), MAX_COUNTED + 1))
    bounds += unplanned[:1] + unplanned[-1:]
    more = len(unplanned) > MAX_COUNTED
    total = count + min(len(unplanned), MAX_COUNTED)
    return Backlogged(total, min(bounds, default=None), max(bounds, default=None), more, _keeps_latest(job))


def _unplanned(job: Job, end: datetime) -> Iterator[datetime]:
    """Instants that have no row because no beat has planned them; a fixed delay has none."""
    cursor = Cursor.objects.filter(job=job).first()
    if cursor is None or not is_plannable(job):
        return
    config = job_config(job)
    schedule = schedule_of(job, config)
    if isinstance(schedule, FixedDelay):
        return
    start = cursor.planned_until or max(cursor.settled_until, job.updated_at)
    certain = end - reach_after(schedule, config)
    for instant in schedule.between(start, end):
        if instant <= certain or choose(schedule, config, job.name, instant).run_at <= end:
            yield instant


def skipped_rows(job: Job, since: datetime) -> OccurrenceQuerySet:
    """What the pause that began at `since` has skipped so far."""
    earlier = Pause.objects.filter(job=job, began_at__lt=since).order_by("-began_at")
    ended_at = earlier.values_list("ended_at", flat=True).first()
    rows = Occurrence.objects.filter(job=job, state=OccurrenceState.SKIPPED, reason=Reason.PAUSED)
    rows = rows.filter(finished_at__gte=since - TICK)
    return rows if ended_at is None else rows.filter(finished_at__gt=ended_at)


def _keeps_latest(job: Job) -> bool:
    """Whether a newer occurrence of the job takes the place of an older one: then only the newest runs."""
    return job_config(job).overlap in (Overlap.QUEUE_LATEST, Overlap.REPLACE)


def _lock(skipped: OccurrenceQuerySet) -> list[Occurrence]:
    """In the order of their instants; locked, so that pruning cannot delete them before the new rows
    exist."""
    rows = list(skipped.order_by("-scheduled_for")[:MAX_REPEATED])[::-1]
    locked = engine().lock_parents([row.id for row in rows])
    return [row for row in rows if row.id in locked]


def _instants(job: Job, rows: Iterable[Occurrence]) -> Iterator[Skipped]:
    schedules: dict[int, Schedule] = {}
    for row in rows:
        if row.spans_until is None:
            yield Skipped(row.scheduled_for, row)
            continue
        schedule = schedules.setdefault(row.job_version, _schedule(job, row.job_version))
        between = schedule.between(row.scheduled_for - MICROSECOND, row.spans_until)
        yield from (Skipped(instant, row) for instant in between)


def _schedule(job: Job, version: int) -> Schedule:
    """The schedule of that version: the job may have been edited during its pause."""
    stored = None
    if version != job.version:
        stored = JobVersion.objects.filter(job=job, number=version).values_list("after", flat=True).first()
    if stored is None:
        return schedule_of(job)
    definition = Definition.load(stored)
    config = dict(definition.config)
    return schedule_of(
        Job(name=job.name, schedule=definition.schedule, config=config, created_at=job.created_at)
    )


def _repeats(
    job: Job, chosen: Collection[Skipped], covers: dict[str, object] | None, now: datetime
) -> list[Occurrence]:
    """Due at once; their start times differ by microseconds, because admission goes by start time."""
    config = job_config(job)
    repeats = []
    for place, item in enumerate(chosen, start=1 - len(chosen)):
        occurrence = new_occurrence(
            job,
            config,
            scheduled_for=item.at,
            run_at=now + place * MICROSECOND,
            now=now,
            cause=Cause.RECOVERY,
            parent=item.row,
            covers=covers,
        )
        occurrence.id = repeat_id(_id(job, item), 0)
        repeats.append(occurrence)
    return repeats


def _id(job: Job, item: Skipped) -> UUID:
    """A row that a second pause skipped may itself be a repeat."""
    return occurrence_id(job.id, item.at) if item.row.spans_until else item.row.id


def covered_span(rows: OccurrenceQuerySet, newest: Collection[Skipped]) -> dict[str, object]:
    """The first and last instant a compressed run covers, their number, and a list of the newest."""
    total = rows.aggregate(**SPAN)
    instants = [item.at.isoformat() for item in list(newest)[-MAX_LISTED_INSTANTS:]]
    return {
        "from": total["first"].isoformat(),
        "until": instants[-1],
        "count": total["count"],
        "instants": instants,
    }
