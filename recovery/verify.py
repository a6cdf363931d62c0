"""A job and a span of time → every difference between what was owed and what the ledger holds (OCC-5).

Reads only. What was owed is computed from the version history and the pure schedules, never from the
rows. Rows come in chunks, in the order of their instants, so that a year takes no more memory than a day.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from django.db.models import Q

from jobs.models import Job, Origin
from jobs.scheduling import job_config
from jobs.store import definition_of
from occurrences.choosing import reach_after, starts_left
from occurrences.ids import occurrence_id
from occurrences.models import Cause, Cursor, Occurrence
from occurrences.states import OccurrenceState
from recovery.coverage import Difference, Kind, Standing, compare
from recovery.models import Pruned
from recovery.owed import MICROSECOND, Segment, owed, segments

CHUNK = 2000
PATIENCE = timedelta(seconds=60)  # on top of the misfire grace: a beat may be in the middle of it
COLUMNS = ("id", "cause", "scheduled_for", "spans_until", "instants", "job_version")


def verify(
    job: Job, *, now: datetime, since: datetime | None = None, until: datetime | None = None
) -> Iterator[Difference]:
    """`since` and `until` cut the comparison off, both inclusive."""
    cursor = Cursor.objects.filter(job=job).first()
    if job.origin == Origin.POLLING or cursor is None:
        return
    start = max(_pruned(job), (since or job.created_at) - MICROSECOND)
    end = min(now, until or now)
    pieces = pieces_of(job, end)
    planned = min(end, cursor.planned_until or cursor.settled_until)
    found = compare(owed(pieces, start, planned), _standing(job, start, planned), explained=_kept(pieces))
    yield from _outside(found, [piece for piece in pieces if not piece.known])
    if not _used_up(pieces, cursor):
        yield from _unplanned(pieces, max(planned, start), min(end, now - _slack(job, pieces)))
    yield from _unfired(job, start, end, now)


def pieces_of(job: Job, until: datetime) -> list[Segment]:
    versions = list(job.versions.order_by("number"))
    return segments(job, versions, definition_of(job, job.tasks.all()), until)


def _pruned(job: Job) -> datetime:
    """Nothing up to here can be missing: it may have been pruned."""
    until = Pruned.objects.filter(job=job).values_list("until", flat=True).first()
    return max(until, job.created_at) if until else job.created_at


def _standing(job: Job, start: datetime, end: datetime) -> Iterator[Standing]:
    within = Q(scheduled_for__gt=start, scheduled_for__lte=end) | Q(
        spans_until__gt=start, scheduled_for__lte=start
    )
    rows = Occurrence.objects.filter(within, job=job, parent=None).exclude(cause=Cause.REPLAY)
    ordered = rows.order_by("scheduled_for", "id").values_list(*COLUMNS)
    for id_, cause, first, last, count, version in ordered.iterator(chunk_size=CHUNK):
        if cause == Cause.RECOVERY and id_ != occurrence_id(job.id, first):
            continue  # it repeats an instant that was skipped, and its parent has been pruned
        cut = first <= start or (last or first) > end
        scheduled = cause in (Cause.SCHEDULE, Cause.RECOVERY)
        yield Standing(id_, first, min(last or first, end), 0 if cut else count, version, scheduled)


def _kept(pieces: Iterable[Segment]) -> Callable[[Standing], bool]:
    """An edit may keep what an older version planned, and what started before it is not undone."""
    told = list(pieces)

    def kept(row: Standing) -> bool:
        own = [piece for piece in told if piece.version == row.version]
        return any(not piece.known or piece.names(row.first) for piece in own)

    return kept


def _outside(found: Iterable[Difference], unknown: list[Segment]) -> Iterator[Difference]:
    """What lies in a stretch nobody can tell about is no difference."""
    for item in found:
        if not any(piece.start < item.first <= piece.end for piece in unknown):
            yield item


def _used_up(pieces: list[Segment], cursor: Cursor) -> bool:
    schedule = pieces[-1].schedule if pieces else None
    return schedule is not None and starts_left(schedule, cursor.starts) == 0


def _unplanned(pieces: list[Segment], start: datetime, end: datetime) -> Iterator[Difference]:
    for item in compare(owed(pieces, start, end), ()):
        yield Difference(Kind.UNPLANNED, item.first, item.last, item.count)


def _slack(job: Job, pieces: list[Segment]) -> timedelta:
    schedule = pieces[-1].schedule if pieces else None
    if schedule is None:
        return PATIENCE
    config = job_config(job)
    return PATIENCE + config.misfire_grace + reach_after(schedule, config)


def _unfired(job: Job, start: datetime, end: datetime, now: datetime) -> Iterator[Difference]:
    rows = Occurrence.objects.filter(job=job, scheduled_for__gt=start, scheduled_for__lte=end)
    stuck = rows.filter(state=OccurrenceState.PENDING, late_at__lte=now - PATIENCE).order_by("scheduled_for")
    for id_, at in stuck.values_list("id", "scheduled_for").iterator(chunk_size=CHUNK):
        yield Difference(Kind.UNFIRED, at, at, occurrence=id_)
