"""Lock due rows with their jobs' cursors, and read everything that admission and opening need.

Rows and cursors locked by another beat are left to that beat. Facts are read by a later statement than the
one that locks: within one statement they would be from before the lock.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

from punctual.occurrences.admission import swift_picking
from punctual.occurrences.admission.candidates import Due, read_candidates
from punctual.occurrences.admission.opening import Steps, read_steps
from punctual.occurrences.database.arrays import Ids, IdText
from punctual.occurrences.database.vendor import is_postgresql
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState


@dataclass(frozen=True)
class Selection:
    """`due_count` counts all rows that were due and free; `rows` are those whose cursor was free as well."""

    due_count: int = 0
    rows: list[Due] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)  # by job
    steps: Steps = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    plans: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # by job; see `swift_picking.cursor_of`


def select_due(now: datetime, limit: int) -> Selection:
    """Lock and read up to `limit` due rows. Call inside a transaction."""
    return _select_by_sql(now, limit) if is_postgresql(connection) else select_by_orm(now, limit)


def _select_by_sql(now: datetime, limit: int) -> Selection:
    due_count, rows, jobs = swift_picking.locked(now, limit)
    if not jobs:
        return Selection(due_count)
    facts = swift_picking.read(rows, jobs)
    busy = _busy(facts.starts)
    return Selection(due_count, facts.rows, facts.starts, facts.steps, facts.broken, busy, facts.plans)


def select_by_orm(now: datetime, limit: int) -> Selection:
    """The same for every database."""
    job_by_row = _lock_rows(now, limit)
    starts = _lock_cursors(set(job_by_row.values()), now)
    ids = [id_ for id_, job in job_by_row.items() if job in starts]
    rows = read_candidates(ids, state=OccurrenceState.PENDING)
    if not rows:
        return Selection(len(job_by_row))
    steps, broken = read_steps(starts)
    return Selection(len(job_by_row), rows, starts, steps, broken, _busy(starts))


def _lock_rows(now: datetime, limit: int) -> dict[str, str]:
    """Due rows that no other process holds, each with its job."""
    rows = Occurrence.objects.due(now).timely(now).order_by("run_at", "id")
    locked = rows.select_for_update(skip_locked=True, no_key=True)
    return dict(locked.values_list(IdText("id"), IdText("job_id"))[:limit])


def _lock_cursors(jobs: Collection[str], now: datetime) -> dict[str, int]:
    """The jobs whose cursor no other process holds, with the number of their starts.

    A job that was edited and is not planned anew yet is left out: its rows may be outdated.
    """
    rows = Cursor.objects.filter(job__any=Ids(jobs)).exclude(planned_until=None, plan_at__lte=now)
    locked = rows.order_by("job_id").select_for_update(skip_locked=True, no_key=True)
    return dict(locked.values_list(IdText("job_id"), "starts"))


def _busy(jobs: Collection[str]) -> set[str]:
    """Jobs with an active or waiting exclusive occurrence: a newcomer comes after it."""
    states = (OccurrenceState.QUEUED, *OCCURRENCE_ACTIVE)
    ahead = Occurrence.objects.filter(job__any=Ids(jobs), state__in=states, exclusive=True)
    return set(ahead.order_by().values_list(IdText("job_id"), flat=True))
