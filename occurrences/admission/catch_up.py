"""Fire recovered, replayed and backfilled occurrences: one after the other, at the rate of their job (LIM-5).

They stay pending until a beat takes the first of a job: `Cursor.catch_up_at` says when the next may start. A
job has few of them in its queue at a time, and live occurrences pass these. The cursor is locked while one is
taken, so the rate holds with any number of beats.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Subquery, TextField
from django.db.models.functions import Cast

from punctual.jobs.config.cascade import stored_config
from punctual.jobs.config.rate import start_interval
from punctual.jobs.errors import PunctualError
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.admission.firing import Fired, fire_selection
from punctual.occurrences.admission.selection import Selection, lock_cursors, read_facts
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.querysets import Ids, IdText
from punctual.occurrences.states import CATCH_UP_CAUSES, OccurrenceState

BATCH = 1000
MAX_AT_ONCE = 50  # of one job, however fast its rate is
BURST = timedelta(seconds=2)  # what a fast rate allows in this time is taken at once
RECHECK_INTERVAL = timedelta(seconds=5)  # while one of the job waits in the queue


class Line(NamedTuple):
    """What a job has to catch up: its first occurrence, and whether one waits in the queue already."""

    config: str
    first: UUID | None
    first_at: datetime | None
    queued: bool

    @property
    def interval(self) -> timedelta:
        """From one start to the next; zero if there is no limit, or the configuration is unusable."""
        try:
            return start_interval(stored_config(self.config).recovery_rate)
        except PunctualError:
            return timedelta()


def fire_catch_up(now: datetime, *, limit: int = BATCH) -> Fired:
    """Take what the rates of all jobs allow now; it starts, or waits in the queue behind live occurrences."""
    with transaction.atomic():
        cursors = lock_cursors(Cursor.objects.catch_up_due(now), now, limit)
        lines = _read_lines(cursors)
        chosen = _choose(lines, now)
        rows = Occurrence.objects.filter(id__any=Ids(chosen), state=OccurrenceState.PENDING).order_by("id")
        locked = rows.select_for_update(skip_locked=True, no_key=True).values_list(IdText("id"), flat=True)
        selection = read_facts(Selection(cursors=cursors), list(locked), now)
        fired = fire_selection(selection, now) if selection.rows else Fired()
        _set_next_starts(lines, {row.job_id for row in selection.rows}, now)
    return fired


def _read_lines(jobs: Collection[str]) -> dict[str, Line]:
    """In a later statement than the one that locks the cursors: another beat may have taken the first."""
    waiting = Occurrence.objects.waiting().filter(job=OuterRef("job_id"), cause__in=CATCH_UP_CAUSES)
    pending = Occurrence.objects.catching_up().filter(job=OuterRef("job_id")).order_by("run_at", "id")
    rows = Cursor.objects.filter(job__any=Ids(jobs)).annotate(
        first=Subquery(pending.values("id")[:1]),
        first_at=Subquery(pending.values("run_at")[:1]),
        queued=Exists(waiting),
    )
    config = Cast("job__config", TextField())
    columns = rows.values_list(IdText("job_id"), config, "first", "first_at", "queued")
    return {job: Line(*row) for job, *row in columns}


def _choose(lines: Mapping[str, Line], now: datetime) -> list[str]:
    """The first of each job or, with a fast rate, the first few; none while one waits in the queue."""
    chosen: list[str] = []
    for job, line in lines.items():
        if line.first is None or line.first_at is None or line.first_at > now or line.queued:
            continue
        count = min(int(BURST / line.interval), MAX_AT_ONCE) if line.interval else MAX_AT_ONCE
        if count > 1:
            rows = Occurrence.objects.catching_up().filter(job=UUID(job), run_at__lte=now)
            rows = rows.order_by("run_at", "id")
            chosen += rows.values_list(IdText("id"), flat=True)[:count]
        else:
            chosen.append(str(line.first))
    return chosen


def _set_next_starts(lines: Mapping[str, Line], taken: Collection[str], now: datetime) -> None:
    """A job whose first one another process holds is asked again in the next tick."""
    starts: dict[str, datetime | None] = {}
    for job, line in lines.items():
        if line.first is None:
            starts[job] = None
        elif line.queued:
            starts[job] = now + RECHECK_INTERVAL
        elif line.first_at is not None and line.first_at > now:
            starts[job] = line.first_at
        elif job in taken:
            starts[job] = now + line.interval
    write_next_starts(starts)


def write_next_starts(starts: Mapping[str, datetime | None]) -> None:
    """Most jobs of a batch have the same rate: one statement for each instant."""
    ordered = sorted(starts.items(), key=lambda item: str(item[1]))
    for at, group in groupby(ordered, key=lambda item: item[1]):
        Cursor.objects.filter(job__any=Ids(job for job, _ in group)).update(catch_up_at=at)


def pace(opened: Iterable[Due], *, now: datetime) -> None:
    """Occurrences that waited in the queue start now: the next one of their jobs starts an interval later."""
    if jobs := {row.job_id for row in opened if row.cause in CATCH_UP_CAUSES}:
        lines = _read_lines(jobs)
        write_next_starts({job: now + line.interval for job, line in lines.items() if line.first})
