"""Find rows whose outcome is wrong: pauses that were not settled, reasons and runs that contradict the state.

Every instant has its row (`coverage`); these questions are about what the row says. Each is one query that
returns only the rows at fault, so a sound ledger costs no memory.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Coalesce

from punctual.jobs.models import Job, Pause
from punctual.occurrences.models import Cause, Occurrence, TaskRun
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import OCCURRENCE_NOT_RUN, OccurrenceState, Reason, RunState
from punctual.recovery.verification.coverage import Difference, Kind
from punctual.recovery.verification.segments import Segment

CHUNK = 2000
BEAT_GRACE = timedelta(seconds=60)  # a beat may be in the middle of the work, or have begun before a pause
COLUMNS = ("id", "scheduled_for", "last", "instants")

# Reasons that a pause does not hide: planning and admission decide them first, or an operator did.
STRONGER_THAN_A_PAUSE = (
    Reason.OPERATOR,
    Reason.UNSCHEDULABLE,
    Reason.WINDOW,
    Reason.STOPPED,
    Reason.REMOVED,
    Reason.NO_TASKS,
    Reason.UNUSABLE_CONFIG,
    Reason.MAX_STARTS,
)
SKIP_REASONS = (
    *STRONGER_THAN_A_PAUSE,
    Reason.PAUSED,
    Reason.COMPRESSED,
    Reason.COMPRESSING,
    Reason.OVERLAP,
    Reason.SUPERSEDED,
    Reason.REPLACED,
)
MISS_REASONS = (Reason.DOWNTIME, Reason.EDITED, Reason.WINDOW)


@dataclass(frozen=True)
class Interval:
    """A pause or a suspended schedule; occurrences with a start time within it must not have run."""

    began_at: datetime
    ended_at: datetime
    is_open: bool = False


def pauses_of(job: Job, parts: Iterable[Segment], now: datetime) -> list[Interval]:
    """The pauses that are over, the current one, and the times of suspended schedules."""
    rows = Pause.objects.filter(job=job).order_by("began_at")
    intervals = [Interval(row.began_at, row.ended_at) for row in rows]
    if job.paused_at is not None:
        end = max(min(now, job.paused_until or now), job.paused_at)
        intervals.append(Interval(job.paused_at, end, is_open=True))
    suspended = ((part.suspended_at, part.end) for part in parts if part.known)
    intervals += [Interval(start, end, is_open=end >= now) for start, end in suspended if start is not None]
    return intervals


def wrong_outcomes(
    job: Job, parts: Iterable[Segment], start: datetime, end: datetime, now: datetime
) -> Iterator[Difference]:
    """Every row of an instant in (start, end] whose state, reason and runs do not fit together."""
    rows = Occurrence.objects.filter(job=job, scheduled_for__gt=start, scheduled_for__lte=end)
    own = rows.filter(parent=None, cause__in=(Cause.SCHEDULE, Cause.RECOVERY))
    pauses = pauses_of(job, parts, now)
    for pause in pauses:
        yield from _differences(Kind.UNSETTLED, _unsettled(own, pause))
    yield from _unpaused(own, pauses)
    yield from _differences(Kind.CONTRADICTED, _contradicted(rows))
    yield from _uncovered(own, now)


def _unsettled(rows: OccurrenceQuerySet, pause: Interval) -> OccurrenceQuerySet:
    """Rows of the pause that are not recorded as skipped by it."""
    single = Q(spans_until=None, run_at__gt=pause.began_at, run_at__lt=pause.ended_at)
    # A range has no start times: only one that lies within the pause, or encloses it, is certain.
    within = Q(scheduled_for__gt=pause.began_at, spans_until__lt=pause.ended_at)
    around = Q(scheduled_for__lt=pause.began_at, spans_until__gt=pause.ended_at)
    excused = Q(state=OccurrenceState.SKIPPED, reason__in=(Reason.PAUSED, *STRONGER_THAN_A_PAUSE))
    excused |= Q(state=OccurrenceState.CANCELED)
    if pause.is_open:
        excused |= Q(state=OccurrenceState.PENDING)  # the beats skip it, or `unfired` names it
    return rows.filter(single | within | around).exclude(excused)


def _unpaused(rows: OccurrenceQuerySet, pauses: Collection[Interval]) -> Iterator[Difference]:
    """Rows skipped by a pause at a time at which there was none."""
    skipped = rows.filter(state=OccurrenceState.SKIPPED, reason=Reason.PAUSED).order_by("scheduled_for")
    columns = _with_last(skipped).values_list(*COLUMNS, "finished_at")
    for id_, first, last, count, finished_at in columns.iterator(chunk_size=CHUNK):
        if not any(_covers(pause, last, finished_at) for pause in pauses):
            yield Difference(Kind.UNPAUSED, first, last, count, id_)


def _covers(pause: Interval, last: datetime, finished_at: datetime) -> bool:
    """A beat that began its tick before the pause, or during it, may write its time after that."""
    begun = pause.began_at - BEAT_GRACE <= finished_at
    ended = pause.ended_at + BEAT_GRACE
    return begun and last <= ended and (pause.is_open or finished_at <= ended)


def _contradicted(rows: OccurrenceQuerySet) -> OccurrenceQuerySet:
    """Rows whose reason does not explain their state, or whose runs say something else."""
    runs = TaskRun.objects.filter(occurrence=OuterRef("pk"))
    succeeded, dead = Exists(runs.filter(state=RunState.SUCCESS)), Exists(runs.filter(state=RunState.DLQ))
    ran = Q(fired_at__isnull=False) | Q(Exists(runs))
    return rows.filter(
        Q(state=OccurrenceState.SKIPPED) & ~Q(reason__in=SKIP_REASONS)
        | Q(state=OccurrenceState.MISSED) & ~Q(reason__in=MISS_REASONS)
        | Q(state__in=OCCURRENCE_NOT_RUN) & ran
        | Q(state=OccurrenceState.COMPLETED) & (~Q(succeeded) | Q(dead))
    )


def _uncovered(rows: OccurrenceQuerySet, now: datetime) -> Iterator[Difference]:
    """Rows that refer to a compressed run which does not exist, or does not cover them."""
    reasons = (Reason.COMPRESSED, Reason.COMPRESSING)
    skipped = rows.filter(state=OccurrenceState.SKIPPED, reason__in=reasons).order_by("scheduled_for")
    if not skipped.exists():
        return
    job = skipped[0].job_id
    spans = [_span(covers) for covers in _covering(job)]
    waits = Occurrence.objects.due(now).filter(job=job).exists()
    columns = _with_last(skipped).values_list(*COLUMNS, "reason")
    for id_, first, last, count, reason in columns.iterator(chunk_size=CHUNK):
        covered = any(begin <= first and last <= end for begin, end in spans)
        if not covered and not (reason == Reason.COMPRESSING and waits):
            yield Difference(Kind.UNCOVERED, first, last, count, id_)


def _covering(job: UUID) -> Iterator[Any]:
    rows = Occurrence.objects.filter(job=job, cause=Cause.RECOVERY, covers__isnull=False)
    return rows.values_list("covers", flat=True).iterator(chunk_size=CHUNK)


def _span(covers: Mapping[str, str]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(covers["from"]), datetime.fromisoformat(covers["until"])


def _with_last(rows: OccurrenceQuerySet) -> OccurrenceQuerySet:
    return rows.annotate(last=Coalesce(F("spans_until"), F("scheduled_for")))


def _differences(kind: Kind, rows: OccurrenceQuerySet) -> Iterator[Difference]:
    columns = _with_last(rows).order_by("scheduled_for", "id").values_list(*COLUMNS)
    for id_, first, last, count in columns.iterator(chunk_size=CHUNK):
        yield Difference(kind, first, last, count, id_)
