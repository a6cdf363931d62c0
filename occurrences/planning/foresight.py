"""Jobs that start now → their next occurrences, worked out while the database still writes what starts.

A batch that fires holds its jobs' cursors, and nearly always these are the ones to be planned next. So they
are read then, planned while the database is busy, and written in a transaction of their own, after the
messages have gone. By then an operator may have edited a job, or another beat may have planned it: a cursor
that is not as it was seen is left to ordinary planning, and so is everything unusual.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from punctual.occurrences.admission.swift_picking import cursor_of
from punctual.occurrences.database.arrays import array_literal
from punctual.occurrences.database.bulk import Row
from punctual.occurrences.database.unawaited import unawaited
from punctual.occurrences.models import Cursor
from punctual.occurrences.planning.downtime import FAR_BEHIND, LateInstants
from punctual.occurrences.planning.fixed_delay import is_fixed_delay
from punctual.occurrences.planning.materialize import Planned, advance_cursors, write_cursors
from punctual.occurrences.planning.new_rows import create_missing

AS_SEEN = """
    SELECT array_agg(job_id::text) FROM (
        SELECT job_id FROM punctual_cursor
        JOIN unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[])
            AS seen (job, settled, planned, plan) ON job_id = job
        WHERE settled_until = settled AND planned_until = planned AND plan_at = plan
        ORDER BY job_id FOR NO KEY UPDATE OF punctual_cursor SKIP LOCKED
    ) AS free
    """


@dataclass(frozen=True)
class Foreseen:
    """`seen` are the cursors as they were, an array for each column; `rows` are those of each cursor."""

    seen: tuple[str, ...] = ()
    cursors: list[Cursor] = field(default_factory=list)
    rows: list[list[Row]] = field(default_factory=list)


def foresee(read: Iterable[tuple[Any, ...]], now: datetime) -> Foreseen:
    """Of rows that `selection` has read under their locks. Asks nothing and writes nothing."""
    held = [cursor for cursor in map(cursor_of, read) if _usual(cursor, now)]
    seen = [array_literal(map(text, column)) for text, column in _columns(held)]
    late = LateInstants(now)
    rows = list(advance_cursors(held, now, late, {}))
    return Foreseen() if late.dispositions or not held else Foreseen(tuple(seen), held, rows)


def _usual(cursor: Cursor, now: datetime) -> bool:
    """Due, neither far behind nor edited, and its next instant is named by the calendar."""
    return (
        cursor.planned_until is not None
        and cursor.plan_at is not None
        and cursor.plan_at <= now
        and cursor.planned_until >= now - FAR_BEHIND
        and not is_fixed_delay(cursor.job.schedule)
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
