"""A job and a span of the past → occurrences for the instants that have none, beside the cursor (REC-5).

An instant that has a row of its own is left alone, whatever became of it: a replay repeats that. One
that only a range of missed ones stands for gets a row linked to the range. Ids follow from the
instants, so repeating a backfill adds nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from django.db import transaction

from jobs.config import Config
from jobs.errors import DefinitionError, PunctualError
from jobs.models import Job, Origin
from jobs.scheduling import job_config, schedule_of
from occurrences.ids import occurrence_id, repeat_id
from occurrences.keeping import kept
from occurrences.materialize import create_missing, new_occurrence
from occurrences.models import Cause, Cursor, Occurrence
from occurrences.states import OccurrenceState
from recovery.audit import Asked, Entry, audited
from recovery.models import Action, Pruned
from recovery.span import Span
from schedules import FixedDelay, Schedule

BATCH = 1000
MOST = 100_000
SHOWN = 50
MICROSECOND = timedelta(microseconds=1)
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Backfilled:
    """`instants` the schedule names in the span; `made` of them got a row, `existing` had one."""

    instants: int = 0
    made: int = 0
    existing: int = 0
    first: datetime | None = None
    last: datetime | None = None
    existing_at: tuple[datetime, ...] = field(default=(), compare=False)  # the first few
    pruned_until: datetime | None = None  # up to here instants may have run, and their rows be gone


def backfill(  # noqa: PLR0913 - one request
    job: Job,
    span: Span,
    *,
    asked: Asked,
    now: datetime,
    dry_run: bool = False,
    most: int = MOST,
    progress: Progress = lambda _count: None,
) -> Backfilled:
    """Both ends included, nothing after now: what lies ahead is planned anyway. `most` is refused beyond."""
    _check(job, span, now)
    schedule, config = schedule_of(job), job_config(job)
    if isinstance(schedule, FixedDelay):
        raise DefinitionError(
            "schedule", job.schedule, "counts from the end of a run: it names no past instants"
        )
    settled = Cursor.objects.values_list("settled_until", flat=True).filter(job=job).first()
    done = Backfilled(pruned_until=_pruned(job, span))
    until = min(span.until, settled or job.created_at, now)
    _refuse_too_many(schedule, span, until, most)
    details = {"job": job.name, "from": span.since.isoformat(), "to": span.until.isoformat()}
    with audited(Action.BACKFILL, asked, now=now, details=details) as entry:
        for batch in _batches(schedule.between(span.since - MICROSECOND, until)):
            missing, existing = _without_row(job, batch)
            made = len(missing)
            if missing and not dry_run:
                # Due at once, and in their order, also across batches.
                made = _write(job, config, missing, entry, run_at=now + done.made * MICROSECOND)
            done = replace(
                done,
                instants=done.instants + len(batch),
                made=done.made + made,
                existing=done.existing + len(batch) - made,
                first=done.first or (missing[0][0] if missing else None),
                last=missing[-1][0] if missing else done.last,
                existing_at=(*done.existing_at, *existing)[:SHOWN],
            )
            progress(len(batch))
    return done


def _check(job: Job, span: Span, now: datetime) -> None:
    if job.removed or job.origin == Origin.POLLING:
        raise PunctualError(f"{job.name}: it is not planned by beats; there is nothing to backfill")
    span.checked(now)


def _refuse_too_many(schedule: Schedule, span: Span, until: datetime, most: int) -> None:
    """Before anything is written: half a range would be hard to tell from a whole one."""
    if next(islice(schedule.between(span.since - MICROSECOND, until), most, None), None) is not None:
        reason = f"the schedule names more than {most:,} instants in this range; fill in a part of it"
        raise DefinitionError("to", span.until.isoformat(), reason)


def _pruned(job: Job, span: Span) -> datetime | None:
    reached = Pruned.objects.filter(job=job, until__gt=job.created_at, until__gte=span.since)
    return reached.values_list("until", flat=True).first()


def _batches(instants: Iterator[datetime]) -> Iterator[list[datetime]]:
    while batch := list(islice(instants, BATCH)):
        yield batch


def _without_row(
    job: Job, batch: Sequence[datetime]
) -> tuple[list[tuple[datetime, Occurrence | None]], list[datetime]]:
    """Instants to fill in, each with the missed range it lies in, and those that have a row."""
    rows = Occurrence.objects.filter(job=job).order_by()
    alone = rows.filter(spans_until=None, scheduled_for__range=(batch[0], batch[-1]))
    own = set(alone.values_list("scheduled_for", flat=True))
    touching = rows.filter(scheduled_for__lte=batch[-1], spans_until__gte=batch[0])
    ranges = list(touching.only("scheduled_for", "spans_until", "state", "job"))
    found: list[tuple[datetime, Occurrence | None]] = []
    known: list[datetime] = []
    for instant in batch:
        holder = next(
            (row for row in ranges if row.scheduled_for <= instant <= (row.spans_until or instant)), None
        )
        if instant in own or (holder is not None and holder.state != OccurrenceState.MISSED):
            known.append(instant)
        else:
            found.append((instant, holder))
    return found, known


def _write(
    job: Job,
    config: Config,
    missing: Sequence[tuple[datetime, Occurrence | None]],
    entry: Entry,
    *,
    run_at: datetime,
) -> int:
    """How many are new: somebody else may have filled in the same ones since they were read."""
    asked, now = entry.asked, entry.now
    with transaction.atomic():
        there = _unpruned(missing)
        rows = [
            _row(job, config, instant, there.get(instant), asked, now=now, run_at=run_at + n * MICROSECOND)
            for n, (instant, _) in enumerate(missing)
        ]
        fresh = create_missing(rows)
        entry.add(fresh)
    return fresh


def _unpruned(missing: Sequence[tuple[datetime, Occurrence | None]]) -> dict[datetime, Occurrence]:
    """The ranges that can still be referred to, by the instants in them."""
    ranges = {holder.id for _, holder in missing if holder is not None}
    there = kept(ranges) if ranges else set()
    return {instant: holder for instant, holder in missing if holder is not None and holder.id in there}


def _row(  # noqa: PLR0913 - facts of one row
    job: Job,
    config: Config,
    instant: datetime,
    holder: Occurrence | None,
    asked: Asked,
    *,
    now: datetime,
    run_at: datetime,
) -> Occurrence:
    made = new_occurrence(
        job,
        config,
        scheduled_for=instant,
        run_at=run_at,
        now=now,
        cause=Cause.BACKFILL,
        parent=holder,
        requested_by=asked.by[:200],
        request_reason=asked.reason[:500],
    )
    if holder is not None:
        made.id = repeat_id(occurrence_id(job.id, instant), 0)
    return made
