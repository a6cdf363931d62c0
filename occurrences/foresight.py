"""Jobs that start now → their next occurrences, worked out while the database still writes what starts.

A batch that fires holds its jobs' cursors, and nearly always these are the ones to be planned next. So they
are read then, planned while the database is busy, and written in a transaction of their own, after the
messages have gone. By then somebody may have edited a job, or another beat may have planned it: a cursor
that is not as it was seen is left to ordinary planning, and so is everything unusual.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from occurrences.arrays import literal
from occurrences.behind import FAR, Behind
from occurrences.materialize import Planned, advanced, create_missing, write_cursors
from occurrences.models import Cursor
from occurrences.resting import rests
from occurrences.swift_picking import cursor_of
from occurrences.unawaited import unawaited
from occurrences.writing import Row

AS_SEEN = """
    SELECT array_agg(job_id::text) FROM (
        SELECT job_id FROM occurrences_cursor
        JOIN unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[])
            AS seen (job, settled, planned, plan) ON job_id = job
        WHERE settled_until = settled AND planned_until = planned AND plan_at = plan
        ORDER BY job_id FOR NO KEY UPDATE OF occurrences_cursor SKIP LOCKED
    ) AS free
    """


@dataclass(frozen=True)
class Foreseen:
    """`seen` are the cursors as they were, an array for each column; `rows` are those of each cursor."""

    seen: tuple[str, ...] = ()
    cursors: list[Cursor] = field(default_factory=list)
    rows: list[list[Row]] = field(default_factory=list)


def foresee(read: Iterable[tuple[Any, ...]], now: datetime) -> Foreseen:
    """Of rows that `picking` has read under their locks. Asks nothing and writes nothing."""
    held = [cursor for cursor in map(cursor_of, read) if _usual(cursor, now)]
    seen = [literal(map(text, column)) for text, column in _columns(held)]
    behind = Behind(now)
    rows = list(advanced(held, now, behind, {}))
    return Foreseen() if behind.absorbed or not held else Foreseen(tuple(seen), held, rows)


def _usual(cursor: Cursor, now: datetime) -> bool:
    """Due, neither far behind nor edited, and its next instant is named by the calendar."""
    return (
        cursor.planned_until is not None
        and cursor.plan_at is not None
        and cursor.plan_at <= now
        and cursor.planned_until >= now - FAR
        and not rests(cursor.job.schedule)
    )


def _columns(held: Sequence[Cursor]) -> Iterator[tuple[Callable[[Any], str], list[Any]]]:
    yield str, [cursor.job_id for cursor in held]
    for name in ("settled_until", "planned_until", "plan_at"):
        yield datetime.isoformat, [getattr(cursor, name) for cursor in held]


def write(foreseen: Foreseen) -> Planned:
    if not foreseen.cursors:
        return Planned()
    with transaction.atomic():
        held, found = _still(foreseen)
        rows = [row for rows in found for row in rows]
        with unawaited():
            create_missing(rows)
            write_cursors(held)
    return Planned(jobs=len(held), instants=len(rows))


def _still(foreseen: Foreseen) -> tuple[list[Cursor], list[list[Row]]]:
    """What is as it was seen, locked."""
    with connection.cursor() as cursor:
        cursor.execute(AS_SEEN, foreseen.seen)
        free = set(cursor.fetchone()[0] or ())
    if len(free) == len(foreseen.cursors):
        return foreseen.cursors, foreseen.rows
    pairs = zip(foreseen.cursors, foreseen.rows, strict=True)
    kept = [(held, rows) for held, rows in pairs if str(held.job_id) in free]
    return [held for held, _ in kept], [rows for _, rows in kept]
