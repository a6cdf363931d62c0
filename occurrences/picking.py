"""Now → due rows locked with their jobs' cursors, and everything admission and opening ask about them.

Rows and cursors another beat holds are left to that beat. What is asked about them is asked by a later
statement than the one that locks: within one, the answer would be from before the lock.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

from occurrences import due, swift_picking
from occurrences.arrays import Ids, IdText
from occurrences.due import Due
from occurrences.models import Cursor, Occurrence
from occurrences.opening import Steps, steps_of
from occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState


@dataclass(frozen=True)
class Picked:
    """`found` counts all that were due and free; `rows` are those whose job was free as well."""

    found: int = 0
    rows: list[Due] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)  # by job
    steps: Steps = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    plans: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # by job; see `swift_picking.cursor_of`


def pick(now: datetime, limit: int) -> Picked:
    """Call inside a transaction."""
    return _swiftly(now, limit) if connection.vendor == "postgresql" else pick_by_orm(now, limit)


def _swiftly(now: datetime, limit: int) -> Picked:
    found, rows, jobs = swift_picking.locked(now, limit)
    if not jobs:
        return Picked(found)
    facts = swift_picking.read(rows, jobs)
    busy = _busy(facts.starts)
    return Picked(found, facts.rows, facts.starts, facts.steps, facts.broken, busy, facts.plans)


def pick_by_orm(now: datetime, limit: int) -> Picked:
    found = _try_rows(now, limit)
    starts = _try_cursors(set(found.values()), now)
    rows = due.read([id_ for id_, job in found.items() if job in starts], state=OccurrenceState.PENDING)
    if not rows:
        return Picked(len(found))
    steps, broken = steps_of(starts)
    return Picked(len(found), rows, starts, steps, broken, _busy(starts))


def _try_rows(now: datetime, limit: int) -> dict[str, str]:
    """Due rows that could be locked at once, each with its job."""
    rows = Occurrence.objects.due(now).timely(now).order_by("run_at", "id")
    locked = rows.select_for_update(skip_locked=True, no_key=True)
    return dict(locked.values_list(IdText("id"), IdText("job_id"))[:limit])


def _try_cursors(jobs: Collection[str], now: datetime) -> dict[str, int]:
    """The jobs whose cursor could be locked at once, with the starts they have had.

    One that was edited and is not yet planned anew is left alone: what it planned before may be void.
    """
    rows = Cursor.objects.filter(job__any=Ids(jobs)).exclude(planned_until=None, plan_at__lte=now)
    locked = rows.order_by("job_id").select_for_update(skip_locked=True, no_key=True)
    return dict(locked.values_list(IdText("job_id"), "starts"))


def _busy(jobs: Collection[str]) -> set[str]:
    """Jobs with an exclusive occurrence under way or in line: a newcomer comes after it."""
    states = (OccurrenceState.QUEUED, *OCCURRENCE_ACTIVE)
    ahead = Occurrence.objects.filter(job__any=Ids(jobs), state__in=states, exclusive=True)
    return set(ahead.order_by().values_list(IdText("job_id"), flat=True))
