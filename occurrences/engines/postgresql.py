"""The engine for PostgreSQL: one statement a step, whatever the outcome, for one row or for a thousand.

The statements are in `punctual.occurrences.sql`. Rows are written from arrays: measured for a thousand
occurrences, `bulk_create` takes 190 ms, nearly all of it in Python, which prepares and quotes each value of
each row. Here a column with the same value in all rows (most of them) is sent once, and every other one as
one array: 25 ms. The rows in the table are the same.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Model

from punctual.conf import current_settings
from punctual.occurrences import sql
from punctual.occurrences.engines.contract import (
    ClaimedRun,
    Closing,
    Cutoff,
    Ended,
    OccurrenceFacts,
    Row,
    RunEnd,
    RunFacts,
    Take,
    Wait,
)
from punctual.occurrences.states import OccurrenceState

MAX_ROWS_PER_STATEMENT = 10_000  # after days of downtime there may be many more

# -- claim and ending -------------------------------------------------------------------------------------


def claim(ids: Sequence[UUID], take: Take) -> list[ClaimedRun]:
    many = len(ids) > 1
    parameters = {
        **take._asdict(),
        "ids": _array(ids) if many else ids[0],
        "begin": len(take.attempts),
        "attempts": _array(take.attempts),
    }
    return [_claimed_run(row) for row in sql.fetch_rows(sql.claim(many=many), parameters)]


def _claimed_run(row: tuple[Any, ...]) -> ClaimedRun:
    args, covers, metadata, first, alone = row[23:]
    return ClaimedRun._make(
        (
            *row[:6],
            _shared(row[6]),
            *row[7:11],
            _occurrence_facts(row[11:21]),
            *row[21:23],
            _own(args),
            _own(covers),
            _own(metadata),
            first,
            alone,
        )
    )


def end(ends: Sequence[RunEnd], *, now: datetime) -> Ended:
    many = len(ends) > 1
    parameters = _columns(ends) if many else ends[0]._asdict()
    statement = sql.end(many=many, shared=current_settings().max_active is not None)
    rows = sql.fetch_rows(statement, {**parameters, "now": now})
    closed = {id_: waiting for _, id_, final, waiting in rows if final}
    resting = {id_: waiting for _, id_, final, waiting in rows if id_ and not final}
    return Ended({run for run, *_ in rows}, closed, resting)


def _columns(ends: Sequence[RunEnd]) -> dict[str, str]:
    columns = zip(sql.TYPES, zip(*ends, strict=True), strict=True)
    return {name: _array(map(_element, values)) for name, values in columns}


def step_due(ids: Collection[UUID]) -> list[UUID]:
    return [id_ for (id_,) in sql.fetch_rows(sql.STEP_DUE, {"ids": _array(ids)})]


def lock_occurrences(
    ids: Collection[UUID], states: Iterable[OccurrenceState], wait: Wait
) -> list[OccurrenceFacts]:
    rows = sql.fetch_rows(sql.lock_occurrences(wait), {"ids": _array(ids), "states": _array(states)})
    return [_occurrence_facts(row[: len(OccurrenceFacts._fields)]) for row in rows]


def read_runs(occurrences: Collection[UUID]) -> list[RunFacts]:
    rows = sql.fetch_rows(sql.RUNS, {"ids": _array(occurrences)})
    return [RunFacts._make((*row[:6], _shared(row[6]), *row[7:])) for row in rows]


def close(
    closings: Sequence[Closing], *, states: Iterable[OccurrenceState], now: datetime
) -> dict[UUID, bool]:
    columns = zip(Closing._fields, zip(*closings, strict=True), strict=True)
    arrays = {name: _array(map(_element, values)) for name, values in columns}
    statement = sql.close(shared=current_settings().max_active is not None)
    return dict(sql.fetch_rows(statement, {**arrays, "states": _array(states), "now": now}))


def lock_parents(ids: Collection[UUID]) -> set[UUID]:
    return {id_ for (id_,) in sql.fetch_rows(sql.LOCK_PARENTS, {"ids": _array(ids)})}


def lock_pools(names: Collection[str], *, wait: bool) -> dict[str, int]:
    parameters = {"names": _array(map(_element, names))}
    # In a session of a beat or a worker; a transaction of users' code must not get limits of ours.
    limited = not getattr(connection, "runs_user_code", True)
    rows = sql.fetch_rows(sql.lock_pools(wait=wait, limited=limited), parameters)
    return {name: size for name, size, locked in rows if wait or locked}


def oldest_rows(cutoffs: Sequence[Cutoff], columns: tuple[str, ...], limit: int) -> list[tuple[Any, ...]]:
    jobs, instants, since, after = zip(*cutoffs, strict=True)
    parameters = {
        "jobs": _array(jobs),
        "cutoffs": _array(map(_element, instants)),
        "since": _array(map(_element, since)),
        "after": _array(after),
        "limit": limit,
    }
    return sql.fetch_rows(sql.oldest(columns), parameters)


# -- bulk writes ------------------------------------------------------------------------------------------


@contextmanager
def pipeline() -> Iterator[None]:
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


def insert_missing(model: type[Model], rows: Iterable[Row]) -> int:
    # By the texts of the ids, which sort like the ids: comparing UUIDs takes ten times as long.
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    size = MAX_ROWS_PER_STATEMENT
    return sum(_insert(model, ordered[start : start + size]) for start in range(0, len(ordered), size))


def _insert(model: type[Model], rows: Sequence[Row]) -> int:
    columns: list[str] = []
    constants: list[Any] = []
    varying: dict[str, tuple[str, str]] = {}  # type and array by column
    named = set().union(*rows)
    for field, name, type_name in _columns_of(model):
        default = field.get_default()
        values = [row.get(field.attname, default) for row in rows] if field.attname in named else [default]
        if varying and values.count(values[0]) == len(values):
            columns.append(f"%s::{type_name}")
            constants.append(field.get_db_prep_save(values[0], connection))
        else:
            columns.append(f"source.{name}")
            varying[name] = type_name, _column(values, type_name)
    source = sql.source_of(varying, (type_name for type_name, _ in varying.values()))
    names = (name for _, name, _ in _columns_of(model))
    statement = sql.insert_missing(model._meta.db_table, names, columns, source)
    return sql.execute(statement, [*constants, *(array for _, array in varying.values())])


def update_rows(model: type[Model], rows: Sequence[Any], *columns: str) -> None:
    if not rows:
        return
    by_name = {field.name: (field.attname, name, type_name) for field, name, type_name in _columns_of(model)}
    key: Any = model._meta.pk
    chosen = [by_name[name] for name in (key.name, *columns)]
    attributes, names, types = zip(*chosen, strict=True)
    statement = sql.update_by_key(model._meta.db_table, names[0], names[1:], sql.source_of(names, types))
    values = ([getattr(row, attribute) for row in rows] for attribute in attributes)
    sql.execute(statement, list(map(_column, values, types)))


# -- parameters and rows ----------------------------------------------------------------------------------


def _array(elements: Iterable[object]) -> str:
    """PostgreSQL's text of an array; the elements are ids, or quoted by `_element`."""
    return "{" + ",".join(map(str, elements)) + "}"


def _element(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int() | UUID():
            return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _occurrence_facts(row: tuple[Any, ...]) -> OccurrenceFacts:
    *facts, config = row[:8]
    return OccurrenceFacts(*[*facts, _shared(config), *row[8:]])


@lru_cache(maxsize=1024)
def _shared(document: str) -> Any:
    """Configurations are never changed in memory, and most of a batch are the same few."""
    return json.loads(document)


def _own(document: str | None) -> Any:
    """A function may change what it is given."""
    return None if document is None else json.loads(document)


def _column(values: Sequence[Any], type_name: str) -> str:
    """The values of one column as an array."""
    write = WRITERS.get(type_name, _element)
    return _array("NULL" if value is None else write(value) for value in values)


MICROSECOND = timedelta(microseconds=1)
WRITERS: dict[str, Callable[[Any], str]] = {
    "uuid": str,
    "integer": str,
    "boolean": str,
    "timestamp with time zone": lru_cache(maxsize=4096)(datetime.isoformat),  # a batch has few different ones
    "interval": lambda value: f'"{value // MICROSECOND} microseconds"',
    "jsonb": lambda value: _element(json.dumps(value)),
}


@cache
def _columns_of(model: type[Model]) -> tuple[tuple[Any, str, str], ...]:
    """The fields of a model, each with its column and the column's type."""
    # Without the column's length: a cast would truncate a text instead of refusing it.
    return tuple(
        (
            field,
            connection.ops.quote_name(field.column or ""),
            str(field.db_type(connection)).partition("(")[0],
        )
        for field in model._meta.concrete_fields
    )
