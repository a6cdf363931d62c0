"""Instants skipped while a job was paused → run after all, as the operator chooses (JOB-8).

A skipped row stays what it is. What runs is a new occurrence linked to it, whose id follows from the
instant: resuming twice makes it once. A range is spelled out again by the schedule that it came from.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from jobs.config import Config
from jobs.models import Job
from jobs.scheduling import job_config, schedule_of
from occurrences.ids import occurrence_id, repeat_id
from occurrences.keeping import kept
from occurrences.materialize import create_missing, new_occurrence
from occurrences.models import Cause, Occurrence
from occurrences.states import OccurrenceState
from schedules import Schedule

MOST = 10_000
MICROSECOND = timedelta(microseconds=1)


class Skipped(NamedTuple):
    """One instant, and the row that says it was skipped."""

    at: datetime
    row: Occurrence


def run_skipped(job: Job, *, choice: str, since: datetime, now: datetime) -> int:
    """How many occurrences were made: for `last` and `compressed` at most one; for `all` the newest MOST.

    Call in a transaction. What is pruned at this moment is left out as if it had been pruned before.
    """
    held = _held(job, since)
    newest = deque(_instants(held, schedule_of(job)), maxlen=MOST)
    wanted = list(newest) if choice == "all" else list(newest)[-1:]
    covers = span(held, newest) if choice == "compressed" and newest else None
    config = job_config(job)
    made = [_repeat(job, config, item, covers, now) for item in wanted]
    create_missing(made)
    return len(made)


def _held(job: Job, since: datetime) -> list[Occurrence]:
    """In the order of their instants; nobody deletes them before the new ones are there."""
    rows = Occurrence.objects.filter(
        job=job, state=OccurrenceState.SKIPPED, reason="paused", finished_at__gte=since
    )
    found = list(rows.order_by("-scheduled_for")[:MOST])[::-1]
    there = kept([row.id for row in found])
    return [row for row in found if row.id in there]


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
    made = new_occurrence(
        job,
        config,
        scheduled_for=item.at,
        run_at=now,
        now=now,
        cause=Cause.RECOVERY,
        parent=item.row,
        covers=covers,
    )
    made.id = repeat_id(occurrence_id(job.id, item.at), 0)
    return made


def span(rows: Collection[Occurrence], newest: Collection[Skipped]) -> dict[str, object]:
    """From the first to the last, how many, and the newest of them one by one."""
    instants = [item.at.isoformat() for item in newest]
    first = min(row.scheduled_for for row in rows)
    return {
        "from": first.isoformat(),
        "until": instants[-1],
        "count": sum(row.instants for row in rows),
        "instants": instants,
    }
