"""Run instants that were skipped while a job was paused, as the operator chooses (JOB-8).

A skipped row stays as it is. What runs is a new occurrence linked to it, whose id follows from the instant,
so resuming twice creates it once. The schedule lists the instants of a range row again.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from punctual.jobs.config.cascade import Config, job_config
from punctual.jobs.ids import occurrence_id, repeat_id
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.planning.new_rows import create_missing, new_occurrence
from punctual.occurrences.states import OccurrenceState, Reason
from punctual.schedules import Schedule

MAX_REPEATED = 10_000
MICROSECOND = timedelta(microseconds=1)


class Skipped(NamedTuple):
    """One skipped instant, and the row that records it."""

    at: datetime
    row: Occurrence


def run_skipped(job: Job, *, choice: str, since: datetime, now: datetime) -> int:
    """Create occurrences for what a pause skipped and return their number.

    `last` and `compressed` create at most one, `all` the newest MAX_REPEATED. Call in a transaction. Rows
    that are being pruned at the same time are left out.
    """
    rows = _lock_skipped(job, since)
    newest = deque(_instants(rows, schedule_of(job)), maxlen=MAX_REPEATED)
    chosen = list(newest) if choice == "all" else list(newest)[-1:]
    covers = covered_span(rows, newest) if choice == "compressed" and newest else None
    config = job_config(job)
    repeats = [_repeat(job, config, item, covers, now) for item in chosen]
    create_missing(repeats)
    return len(repeats)


def _lock_skipped(job: Job, since: datetime) -> list[Occurrence]:
    """In the order of their instants; locked, so that pruning cannot delete them before the new rows
    exist."""
    skipped = Occurrence.objects.filter(
        job=job, state=OccurrenceState.SKIPPED, reason=Reason.PAUSED, finished_at__gte=since
    )
    rows = list(skipped.order_by("-scheduled_for")[:MAX_REPEATED])[::-1]
    locked = engine().lock_parents([row.id for row in rows])
    return [row for row in rows if row.id in locked]


def _instants(rows: Iterable[Occurrence], schedule: Schedule) -> Iterator[Skipped]:
    for row in rows:
        if row.spans_until is None:
            yield Skipped(row.scheduled_for, row)
        else:
            between = schedule.between(row.scheduled_for - MICROSECOND, row.spans_until)
            yield from (Skipped(instant, row) for instant in between)


def _repeat(
    job: Job, config: Config, item: Skipped, covers: dict[str, object] | None, now: datetime
) -> Occurrence:
    occurrence = new_occurrence(
        job,
        config,
        scheduled_for=item.at,
        run_at=now,
        now=now,
        cause=Cause.RECOVERY,
        parent=item.row,
        covers=covers,
    )
    occurrence.id = repeat_id(occurrence_id(job.id, item.at), 0)
    return occurrence


def covered_span(rows: Collection[Occurrence], newest: Collection[Skipped]) -> dict[str, object]:
    """The first and last instant a compressed run covers, their number, and a list of the newest."""
    instants = [item.at.isoformat() for item in newest]
    first = min(row.scheduled_for for row in rows)
    return {
        "from": first.isoformat(),
        "until": instants[-1],
        "count": sum(row.instants for row in rows),
        "instants": instants,
    }
