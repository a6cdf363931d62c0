"""Lock due rows with their jobs' cursors, and read what admission, opening and planning need.

Rows and cursors locked by another beat are left to that beat. Facts are read by a later statement than the
one that locks: within one statement they would be from before the lock.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from punctual.occurrences.admission import candidates
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.admission.opening import Steps, resolve_steps
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.cursors import CONFIG, JOB_COLUMNS, SeenJob, build_job, job_columns
from punctual.occurrences.querysets import CursorQuerySet, Ids, IdText
from punctual.occurrences.states import LIVE_CAUSES, OCCURRENCE_ACTIVE, OccurrenceState

# First the columns of Due, which end with the first columns of its job; then the others of the job.
DUE = slice(len(Due._fields))
JOB = slice(Due._fields.index("job"), Due._fields.index("job") + len(JOB_COLUMNS))
COLUMNS = (*candidates.COLUMNS, *job_columns("job__")[DUE.stop - JOB.start :])


class CursorFacts(NamedTuple):
    planned_until: datetime | None
    plan_at: datetime | None
    starts: int


@dataclass(frozen=True)
class Selection:
    """`due_count` counts all rows that were due and free; `rows` are those whose cursor was free as well."""

    due_count: int = 0
    more: bool = False  # further rows are due
    rows: list[Due] = field(default_factory=list)
    jobs: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # JOB_COLUMNS of each
    cursors: dict[str, CursorFacts] = field(default_factory=dict)  # by job
    steps: Steps = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    busy: dict[str, str] = field(default_factory=dict)

    @property
    def starts(self) -> dict[str, int]:
        """By job."""
        return {job: self.cursors[job].starts for job in self.jobs}

    def seen_jobs(self) -> dict[str, SeenJob]:
        """The jobs as planning needs them."""
        return {
            job: SeenJob(*self.cursors[job][:2], build_job(job, row), row[CONFIG])
            for job, row in self.jobs.items()
        }


def select_due(now: datetime, limit: int) -> Selection:
    """Lock and read up to `limit` due rows. Call inside a transaction."""
    # One more than needed tells whether further rows are due, without another query.
    locked = _lock_rows(now, limit + 1)
    job_by_row = dict(locked[:limit])
    selection = Selection(len(job_by_row), more=len(locked) > limit)
    cursors = lock_cursors(Cursor.objects.filter(job__any=Ids(set(job_by_row.values()))), now)
    ids = [id_ for id_, job in job_by_row.items() if job in cursors]
    return read_facts(replace(selection, cursors=cursors), ids, now) if ids else selection


def read_facts(selection: Selection, ids: Collection[str], now: datetime) -> Selection:
    """Read the facts about locked rows."""
    rows: list[Due] = []
    jobs: dict[str, tuple[Any, ...]] = {}
    pending = Occurrence.objects.filter(id__any=ids, state=OccurrenceState.PENDING)
    for row in pending.with_planned_version().order_by().values_list(*COLUMNS):
        due = Due._make(row[DUE])
        rows.append(due)
        jobs[due.job_id] = row[JOB]
    steps, broken = resolve_steps(rows, now)
    return replace(selection, rows=rows, jobs=jobs, steps=steps, broken=broken, busy=_busy(jobs))


def _lock_rows(now: datetime, limit: int) -> list[tuple[str, str]]:
    """Due rows that no other process holds, each with its job."""
    rows = Occurrence.objects.due(now).timely(now).order_by("run_at", "id")
    locked = rows.select_for_update(skip_locked=True, no_key=True)
    return list(locked.values_list(IdText("id"), IdText("job_id"))[:limit])


def lock_cursors(cursors: CursorQuerySet, now: datetime, limit: int | None = None) -> dict[str, CursorFacts]:
    """Those of the cursors that no other process holds, by job.

    A job that was edited and is not planned anew yet is left out: its rows may be outdated.
    """
    rows = cursors.exclude(planned_until=None, plan_at__lte=now).order_by("job_id")
    locked = rows.select_for_update(skip_locked=True, no_key=True)
    facts = locked.values_list(IdText("job_id"), "planned_until", "plan_at", "starts")[:limit]
    return {job: CursorFacts(*row) for job, *row in facts}


def _busy(jobs: Collection[str]) -> dict[str, str]:
    """Jobs with an active or waiting exclusive occurrence, which a newcomer comes after, and its cause.

    Of several the active one counts; then a live one that waits.
    """
    states = (OccurrenceState.QUEUED, *OCCURRENCE_ACTIVE)
    ahead = Occurrence.objects.filter(job__any=Ids(jobs), state__in=states, exclusive=True).order_by()
    rows = list(ahead.values_list(IdText("job_id"), "state", "cause"))
    rows.sort(key=lambda row: (row[1] != OccurrenceState.QUEUED, row[2] in LIVE_CAUSES))
    return {job: cause for job, _, cause in rows}
