"""Create occurrences for past instants of a job that have none, without moving its cursor (REC-5).

An instant that has a row of its own is left alone, whatever its state: a replay repeats it. An instant that
is only part of a range of missed instants gets a row linked to the range. Ids follow from the instants, so a
repeated backfill adds nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from django.db import transaction

from punctual.jobs.config.cascade import Config, job_config
from punctual.jobs.errors import DefinitionError, PunctualError
from punctual.jobs.ids import occurrence_id, repeat_id
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job, Origin
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cause, Cursor, Occurrence
from punctual.occurrences.planning.cursors import line_up
from punctual.occurrences.planning.new_rows import create_missing, new_occurrence
from punctual.occurrences.states import OccurrenceState
from punctual.recovery.models import Pruned
from punctual.recovery.requester import Record, Requester, unrecorded
from punctual.recovery.time_range import TimeRange
from punctual.schedules import FixedDelay, Schedule

BATCH = 1000
MAX_BACKFILLED = 100_000
MAX_LISTED_EXISTING = 50
MICROSECOND = timedelta(microseconds=1)
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Backfilled:
    """Of the `instants` in the range, `created` got a row and `existing` had one."""

    instants: int = 0
    created: int = 0
    existing: int = 0
    first: datetime | None = None
    last: datetime | None = None
    existing_at: tuple[datetime, ...] = field(default=(), compare=False)  # the first few
    pruned_until: datetime | None = None  # instants up to here may have run, and their rows may be pruned


def backfill(  # noqa: PLR0913 - one request
    job: Job,
    span: TimeRange,
    *,
    requester: Requester,
    now: datetime,
    dry_run: bool = False,
    limit: int = MAX_BACKFILLED,
    record: Record = unrecorded,
    progress: Progress = lambda _count: None,
) -> Backfilled:
    """Fill in the range, both ends included, up to the instants that planning creates anyway.

    A range with more than `limit` instants is refused.
    """
    _check(job, span, now)
    schedule, config = schedule_of(job), job_config(job)
    if isinstance(schedule, FixedDelay):
        raise DefinitionError(
            "schedule", job.schedule, "counts from the end of a run: it names no past instants"
        )
    settled = Cursor.objects.values_list("settled_until", flat=True).filter(job=job).first()
    result = Backfilled(pruned_until=_pruned_until(job, span))
    until = min(span.until, settled or job.created_at, now)
    _check_size(schedule, span, until, limit)
    for batch in _batches(schedule.between(span.since - MICROSECOND, until)):
        missing, existing = _split(job, batch)
        created = len(missing)
        if missing and not dry_run:
            # Due now, each a microsecond later than the one before, so that they start in order.
            created = _create(
                job, config, missing, requester, record, now=now, run_at=now + result.created * MICROSECOND
            )
        result = replace(
            result,
            instants=result.instants + len(batch),
            created=result.created + created,
            existing=result.existing + len(batch) - created,
            first=result.first or (missing[0].at if missing else None),
            last=missing[-1].at if missing else result.last,
            existing_at=(*result.existing_at, *existing)[:MAX_LISTED_EXISTING],
        )
        progress(len(batch))
    return result


def _check(job: Job, span: TimeRange, now: datetime) -> None:
    if job.removed or job.origin == Origin.POLLING:
        raise PunctualError(f"{job.name}: it is not planned by beats; there is nothing to backfill")
    span.check(now)


def _check_size(schedule: Schedule, span: TimeRange, until: datetime, limit: int) -> None:
    """Refuse before anything is written: half a range would be hard to tell from a whole one."""
    if next(islice(schedule.between(span.since - MICROSECOND, until), limit, None), None) is not None:
        reason = f"the schedule names more than {limit:,} instants in this range; fill in a part of it"
        raise DefinitionError("to", span.until.isoformat(), reason)


def _pruned_until(job: Job, span: TimeRange) -> datetime | None:
    pruned = Pruned.objects.filter(job=job, until__gt=job.created_at, until__gte=span.since)
    return pruned.values_list("until", flat=True).first()


def _batches(instants: Iterator[datetime]) -> Iterator[list[datetime]]:
    while batch := list(islice(instants, BATCH)):
        yield batch


@dataclass(frozen=True)
class _Missing:
    """An instant without a row of its own, and the range of missed instants it is part of."""

    at: datetime
    range: Occurrence | None


def _split(job: Job, batch: Sequence[datetime]) -> tuple[list[_Missing], list[datetime]]:
    """Split the instants into those to fill in and those that have a row."""
    rows = Occurrence.objects.filter(job=job).order_by()
    single = rows.filter(spans_until=None, scheduled_for__range=(batch[0], batch[-1]))
    own = set(single.values_list("scheduled_for", flat=True))
    touching = rows.filter(scheduled_for__lte=batch[-1], spans_until__gte=batch[0])
    ranges = list(touching.only("scheduled_for", "spans_until", "state", "job"))
    missing: list[_Missing] = []
    existing: list[datetime] = []
    for instant in batch:
        holder = next(
            (row for row in ranges if row.scheduled_for <= instant <= (row.spans_until or instant)), None
        )
        if instant in own or (holder is not None and holder.state != OccurrenceState.MISSED):
            existing.append(instant)
        else:
            missing.append(_Missing(instant, holder))
    return missing, existing


def _create(  # noqa: PLR0913 - facts of one batch
    job: Job,
    config: Config,
    missing: Sequence[_Missing],
    requester: Requester,
    record: Record,
    *,
    now: datetime,
    run_at: datetime,
) -> int:
    """Return how many are new: another process may have filled in the same instants since they were read."""
    with transaction.atomic():
        ranges = _lock_ranges(missing)
        rows = [
            _row(
                job, config, item.at, ranges.get(item.at), requester, now=now, run_at=run_at + n * MICROSECOND
            )
            for n, item in enumerate(missing)
        ]
        count = create_missing(rows)
        line_up([job.id], now=now)
        record(count)
    return count


def _lock_ranges(missing: Sequence[_Missing]) -> dict[datetime, Occurrence]:
    """The ranges that still exist, by instant, locked so that pruning cannot delete them."""
    ids = {item.range.id for item in missing if item.range is not None}
    locked = engine().lock_parents(ids) if ids else set()
    return {item.at: item.range for item in missing if item.range is not None and item.range.id in locked}


def _row(  # noqa: PLR0913 - facts of one row
    job: Job,
    config: Config,
    instant: datetime,
    parent: Occurrence | None,
    requester: Requester,
    *,
    now: datetime,
    run_at: datetime,
) -> Occurrence:
    row = new_occurrence(
        job,
        config,
        scheduled_for=instant,
        run_at=run_at,
        now=now,
        cause=Cause.BACKFILL,
        parent=parent,
        requested_by=requester.by[:200],
        request_reason=requester.reason[:500],
    )
    if parent is not None:
        row.id = repeat_id(occurrence_id(job.id, instant), 0)
    return row
