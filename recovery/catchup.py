"""Pending rows nobody fired in time → run after all or recorded as missed, as the job's strategy says.

Runs inside every tick, after planning and before firing. A row is late once `misfire_grace` has
passed; what shall still run is marked as recovery and goes through the normal door, firing. Of a
paused job nothing runs: what is late is recorded as skipped, and resuming decides about it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs.events import Event, emit
from jobs.models import Job
from occurrences import transitions
from occurrences.behind import COMPRESSING, DOWNTIME, PAUSED
from occurrences.models import Cursor, Occurrence
from recovery.verdict import Late, Range, Verdict, decide

BATCH = 100


@dataclass(frozen=True)
class CaughtUp:
    jobs: int = 0
    recovered: int = 0
    missed: int = 0
    skipped: int = 0  # paused, or covered by a compressed run


def catch_up(now: datetime, *, job: Job | None = None, limit: int = BATCH) -> CaughtUp:
    """Of all jobs, or of one. Jobs whose planning is still behind wait: a strategy needs the whole list."""
    late = Occurrence.objects.due(now).late(now).exclude(job__cursor__plan_at__lte=now)
    late = late.filter(job=job) if job else late
    jobs = list(late.order_by("job_id").values_list("job_id", flat=True).distinct()[:limit])
    if not jobs:
        return CaughtUp()
    with transaction.atomic():
        cursors = Cursor.objects.filter(job__in=jobs).order_by("job_id")
        held = list(cursors.select_for_update(skip_locked=True, no_key=True).values_list("job_id", flat=True))
        return _dispose(held, now)


def _dispose(jobs: Collection[UUID], now: datetime) -> CaughtUp:
    late = _late(jobs, now)
    # The configuration is long and the same for all of a job's rows: only the newest one's is read.
    newest = Occurrence.objects.select_related("job").in_bulk([rows[-1].id for rows in late.values()])
    ranges = _uncovered(jobs)
    verdicts = [decide(newest[rows[-1].id], rows, ranges.get(job, ()), now=now) for job, rows in late.items()]
    _write(verdicts, now)
    return CaughtUp(
        jobs=len(verdicts),
        recovered=sum(item.recovered for item in verdicts),
        missed=sum(len(item.miss) for item in verdicts),
        skipped=sum(len(item.paused) + len(item.covered) for item in verdicts),
    )


def _write(verdicts: Collection[Verdict], now: datetime) -> None:
    def ids(fate: str) -> list[UUID]:
        return list(chain.from_iterable(getattr(item, fate) for item in verdicts))

    transitions.recover(ids("run"))
    transitions.miss(ids("miss"), reason=DOWNTIME, now=now)
    transitions.skip(ids("paused"), reason=PAUSED, now=now)
    transitions.skip(ids("covered"), reason=transitions.COMPRESSED, now=now)
    covers: dict[UUID, Any] = {id_: told for item in verdicts for id_, told in item.compress.items()}
    if covers:
        transitions.compress(covers, ranges=ids("ranges"))
    for item in verdicts:
        event = Event.OCCURRENCE_RECOVERED if item.recovered else Event.OCCURRENCE_MISSED
        emit(event, job=item.job, late=item.late, recovered=item.recovered)


def _late(jobs: Collection[UUID], now: datetime) -> dict[UUID, list[Late]]:
    rows = Occurrence.objects.due(now).late(now).filter(job__in=jobs).order_by("job_id", "scheduled_for")
    found = (Late(*row) for row in rows.values_list("job_id", "id", "scheduled_for"))
    return _by_job(found)


def _uncovered(jobs: Collection[UUID]) -> dict[UUID, list[Range]]:
    """Ranges that still wait for the compressed run that covers them."""
    rows = Occurrence.objects.filter(job__in=jobs, state="skipped", reason=COMPRESSING)
    columns = rows.values_list("job_id", "id", "scheduled_for", "spans_until", "instants")
    return _by_job(Range(*row) for row in columns.order_by("job_id", "scheduled_for"))


def _by_job(rows: Iterable[Any]) -> dict[UUID, list[Any]]:
    return {job: list(group) for job, group in groupby(rows, key=attrgetter("job_id"))}
