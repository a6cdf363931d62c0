"""Return every difference between the instants a job owed and the rows of the ledger (OCC-5).

Reads only. Owed instants are computed from the version history, never from the rows. Rows are read in chunks
in order of their instants, so that a year takes no more memory than a day.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from punctual.jobs.config.cascade import job_config
from punctual.jobs.ids import occurrence_id
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.rows import definition_of
from punctual.occurrences.admission.capacity import starts_left
from punctual.occurrences.models import Cause, Cursor, Occurrence
from punctual.occurrences.planning.instants import reach_after
from punctual.occurrences.states import OccurrenceState
from punctual.recovery.models import Pruned
from punctual.recovery.verification.coverage import Difference, Kind, LedgerRow, compare
from punctual.recovery.verification.dispositions import BEAT_GRACE, wrong_outcomes
from punctual.recovery.verification.segments import MICROSECOND, Segment, owed_instants, segments

CHUNK = 2000
COLUMNS = ("id", "cause", "scheduled_for", "spans_until", "instants", "job_version")


def verify(
    job: Job, *, now: datetime, since: datetime | None = None, until: datetime | None = None
) -> Iterator[Difference]:
    """`since` and `until` limit the comparison, both inclusive."""
    cursor = Cursor.objects.filter(job=job).first()
    if job.origin == Origin.POLLING or cursor is None:
        return
    start = max(_pruned_until(job), (since or job.created_at) - MICROSECOND)
    end = min(now, until or now)
    parts = job_segments(job, end)
    planned = min(end, cursor.planned_until or cursor.settled_until)
    owed = owed_instants(parts, start, planned)
    differences = compare(owed, _ledger_rows(job, start, planned), explained=_explained_by(parts))
    yield from _outside(differences, [part for part in parts if not part.known])
    if not _used_up(parts, cursor):
        yield from _unplanned(parts, max(planned, start), min(end, now - _planning_slack(job, parts)))
    if end == now:
        yield from _missing_ahead(job, parts, cursor, now)
    yield from _rewound(job, cursor)
    yield from _unfired(job, start, end, now)
    yield from wrong_outcomes(job, parts, start, end, now)


def job_segments(job: Job, until: datetime) -> list[Segment]:
    versions = list(job.versions.order_by("number"))
    return segments(job, versions, definition_of(job, job.tasks.all()), until)


def _pruned_until(job: Job) -> datetime:
    """Instants up to here are not compared: their rows may have been pruned."""
    until = Pruned.objects.filter(job=job).values_list("until", flat=True).first()
    return max(until, job.created_at) if until else job.created_at


def _ledger_rows(job: Job, start: datetime, end: datetime) -> Iterator[LedgerRow]:
    within = Q(scheduled_for__gt=start, scheduled_for__lte=end) | Q(
        spans_until__gt=start, scheduled_for__lte=start
    )
    rows = Occurrence.objects.filter(within, job=job, parent=None).exclude(cause=Cause.REPLAY)
    ordered = rows.order_by("scheduled_for", "id").values_list(*COLUMNS)
    for id_, cause, first, last, count, version in ordered.iterator(chunk_size=CHUNK):
        if cause == Cause.RECOVERY and id_ != occurrence_id(job.id, first):
            continue  # it repeats a skipped instant, and its parent has been pruned
        cut = first <= start or (last or first) > end
        scheduled = cause in (Cause.SCHEDULE, Cause.RECOVERY)
        yield LedgerRow(id_, first, min(last or first, end), 0 if cut else count, version, scheduled)


def _explained_by(parts: Sequence[Segment]) -> Callable[[LedgerRow], bool]:
    """An edit may keep what an older version planned, and does not undo what started before it."""

    def explained(row: LedgerRow) -> bool:
        own = [part for part in parts if part.version == row.version]
        return any(not part.known or part.names(row.first) for part in own)

    return explained


def _outside(differences: Iterable[Difference], unknown: list[Segment]) -> Iterator[Difference]:
    """Leave out differences in segments whose owed instants are unknown."""
    for item in differences:
        if not any(part.start < item.first <= part.end for part in unknown):
            yield item


def _used_up(parts: list[Segment], cursor: Cursor) -> bool:
    schedule = parts[-1].schedule if parts else None
    return schedule is not None and starts_left(schedule, cursor.starts) == 0


def _unplanned(parts: list[Segment], start: datetime, end: datetime) -> Iterator[Difference]:
    for item in compare(owed_instants(parts, start, end), ()):
        yield Difference(Kind.UNPLANNED, item.first, item.last, item.count)


def _missing_ahead(job: Job, parts: list[Segment], cursor: Cursor, now: datetime) -> Iterator[Difference]:
    """The next instant, if the cursor claims that it is planned and it has no row."""
    ahead = parts[-1] if parts else None
    if cursor.planned_until is None or ahead is None or not ahead.known or ahead.schedule is None:
        return
    following = ahead.schedule.next_after(max(now, ahead.start))
    if following is not None and following <= cursor.planned_until:
        rows = Occurrence.objects.filter(job=job, scheduled_for=following)
        if not rows.exists():
            yield Difference(Kind.MISSING, following, following)


def _rewound(job: Job, cursor: Cursor) -> Iterator[Difference]:
    until = Pruned.objects.filter(job=job).values_list("until", flat=True).first()
    reached = max(cursor.planned_until or cursor.settled_until, cursor.settled_until)
    if until is not None and reached < until:
        yield Difference(Kind.REWOUND, reached, until)


def _planning_slack(job: Job, parts: list[Segment]) -> timedelta:
    schedule = parts[-1].schedule if parts else None
    if schedule is None:
        return BEAT_GRACE
    config = job_config(job)
    return BEAT_GRACE + config.misfire_grace + reach_after(schedule, config)


def _unfired(job: Job, start: datetime, end: datetime, now: datetime) -> Iterator[Difference]:
    rows = Occurrence.objects.filter(job=job, scheduled_for__gt=start, scheduled_for__lte=end)
    stuck = rows.filter(state=OccurrenceState.PENDING, late_at__lte=now - BEAT_GRACE).order_by(
        "scheduled_for"
    )
    for id_, at in stuck.values_list("id", "scheduled_for").iterator(chunk_size=CHUNK):
        yield Difference(Kind.UNFIRED, at, at, occurrence=id_)
