"""Decide about occurrences that were not fired in time, as the recovery strategy of each job says (REC-1).

Runs in every tick, after planning and before firing. An occurrence is late once `misfire_grace` has passed.
Those that shall still run are marked as recovery and fired like any other; the rest are recorded as missed.
Late occurrences of a paused job are recorded as skipped; resuming the job decides about them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import transaction

from punctual.jobs.config.cascade import load_snapshot
from punctual.jobs.config.choices import Recovery
from punctual.jobs.events import Event, emit
from punctual.jobs.models import Job
from punctual.occurrences import transitions
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.catchup_policy import to_execute
from punctual.occurrences.planning.cursors import line_up
from punctual.occurrences.planning.downtime import MAX_LISTED_INSTANTS
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import Reason

BATCH = 100


@dataclass(frozen=True)
class CaughtUp:
    jobs: int = 0
    recovered: int = 0
    missed: int = 0
    skipped: int = 0  # paused, or covered by a compressed run


def catch_up(now: datetime, *, job: Job | None = None, limit: int = BATCH) -> CaughtUp:
    """Catch up all jobs, or one. Jobs that are still to be planned wait: a strategy needs the whole list."""
    late = Occurrence.objects.due(now).late(now).exclude(job__cursor__plan_at__lte=now)
    # A pause that is over: the tick resumes the job first.
    late = late.exclude(job__paused_at__isnull=False, job__paused_until__lte=now)
    late = late.filter(job=job) if job else late
    jobs = list(late.order_by("job_id").values_list("job_id", flat=True).distinct()[:limit])
    if not jobs:
        return CaughtUp()
    with transaction.atomic():
        cursors = Cursor.objects.filter(job__in=jobs).order_by("job_id")
        unlocked = cursors.select_for_update(skip_locked=True, no_key=True)
        return _catch_up_jobs(set(unlocked.values_list("job_id", flat=True)), now)


def _catch_up_jobs(jobs: set[UUID], now: datetime) -> CaughtUp:
    jobs = jobs - _jobs_with_held_rows(_late_rows(jobs, now)) - _jobs_with_held_rows(_range_rows(jobs))
    late = _by_job(Late(*row) for row in _late_rows(jobs, now).values_list("job_id", "id", "scheduled_for"))
    # The configuration is long and the same for all rows of a job: it is read for the newest row only.
    newest = Occurrence.objects.select_related("job").in_bulk([rows[-1].id for rows in late.values()])
    ranges = _uncovered_ranges(jobs)
    decisions = [
        decide(newest[rows[-1].id], rows, ranges.get(job, ()), now=now) for job, rows in late.items()
    ]
    _write(decisions, now)
    line_up([job for job, item in zip(late, decisions, strict=True) if item.recovered], now=now)
    return CaughtUp(
        jobs=len(decisions),
        recovered=sum(item.recovered for item in decisions),
        missed=sum(len(item.miss) for item in decisions),
        skipped=sum(len(item.paused) + len(item.covered) for item in decisions),
    )


def _jobs_with_held_rows(rows: OccurrenceQuerySet) -> set[UUID]:
    """Jobs of which another session holds one of the rows: a strategy decides about all of them at once.

    The other rows are locked until the end of the transaction.
    """
    locked = rows.select_for_update(skip_locked=True, no_key=True).values_list("job_id", flat=True)
    missing = Counter(rows.values_list("job_id", flat=True)) - Counter(locked)
    return set(missing)


def _late_rows(jobs: Collection[UUID], now: datetime) -> OccurrenceQuerySet:
    return Occurrence.objects.due(now).late(now).filter(job__in=jobs).order_by("job_id", "scheduled_for")


def _range_rows(jobs: Collection[UUID]) -> OccurrenceQuerySet:
    """Ranges that still wait for the compressed run that covers them."""
    rows = Occurrence.objects.filter(job__in=jobs, state="skipped", reason=Reason.COMPRESSING)
    return rows.order_by("job_id", "scheduled_for")


def _uncovered_ranges(jobs: Collection[UUID]) -> "dict[UUID, list[Range]]":
    columns = ("job_id", "id", "scheduled_for", "spans_until", "instants")
    return _by_job(Range(*row) for row in _range_rows(jobs).values_list(*columns))


def _by_job(rows: Iterable[Any]) -> dict[UUID, list[Any]]:
    return {job: list(group) for job, group in groupby(rows, key=attrgetter("job_id"))}


def _write(decisions: "Collection[Decision]", now: datetime) -> None:
    def ids(fate: str) -> list[UUID]:
        return list(chain.from_iterable(getattr(item, fate) for item in decisions))

    transitions.recover(ids("run"))
    transitions.miss(ids("miss"), reason=Reason.DOWNTIME, now=now)
    transitions.skip(ids("paused"), reason=Reason.PAUSED, now=now)
    transitions.skip(ids("covered"), reason=Reason.COMPRESSED, now=now)
    covers: dict[UUID, Any] = {id_: span for item in decisions for id_, span in item.compress.items()}
    if covers:
        transitions.compress(covers, ranges=ids("ranges"))
    for item in decisions:
        event = Event.OCCURRENCE_RECOVERED if item.recovered else Event.OCCURRENCE_MISSED
        emit(event, job=item.job, late=item.late, recovered=item.recovered)


# -- the decision: pure ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Late:
    job_id: UUID
    id: UUID
    scheduled_for: datetime


@dataclass(frozen=True)
class Range:
    """Missed instants represented by one row; a single instant has no `until`."""

    job_id: UUID
    id: UUID
    scheduled_for: datetime
    until: datetime | None
    instants: int


@dataclass(frozen=True)
class Decision:
    """Ids by what happens to them; `compress` maps the occurrence that runs to the instants it covers."""

    job: str
    late: int
    run: Sequence[UUID] = ()
    miss: Sequence[UUID] = ()
    paused: Sequence[UUID] = ()
    covered: Sequence[UUID] = ()
    ranges: Sequence[UUID] = ()
    compress: Mapping[UUID, Mapping[str, object]] = field(default_factory=dict)

    @property
    def recovered(self) -> int:
        return len(self.run) + len(self.compress)


def decide(newest: Occurrence, late: Sequence[Late], ranges: Sequence[Range], *, now: datetime) -> Decision:
    """Apply the strategy of `newest`, the row of the last instant, to all of `late`, in order of instants."""
    name, config = newest.job.name, load_snapshot(newest.config)
    ids = [row.id for row in late]
    if newest.job.paused or newest.job.suspended:
        return Decision(name, len(late), paused=ids)
    if config.recovery is Recovery.COMPRESSED:
        compress = {newest.id: covered_span(late, ranges)}
        range_ids = [row.id for row in ranges]
        return Decision(name, len(late), covered=ids[:-1], ranges=range_ids, compress=compress)
    keep = to_execute(config, [row.scheduled_for for row in late], now)
    run = [row.id for row in late if row.scheduled_for in keep]
    return Decision(name, len(late), run=run, miss=[row.id for row in late if row.scheduled_for not in keep])


def covered_span(late: Sequence[Late], ranges: Sequence[Range] = ()) -> dict[str, object]:
    """The span and the number of instants a compressed run covers, and a list of the newest."""
    first = min([row.scheduled_for for row in ranges] + [row.scheduled_for for row in late])
    return {
        "from": first.isoformat(),
        "until": late[-1].scheduled_for.isoformat(),
        "count": len(late) + sum(row.instants for row in ranges),
        "instants": [row.scheduled_for.isoformat() for row in late[-MAX_LISTED_INSTANTS:]],
    }
