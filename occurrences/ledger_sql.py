"""Raw SQL of the ledger, for what the ORM cannot do or does much slower: arrays, key locks, pipelines.

On PostgreSQL many rows are written with one statement whose parameters are arrays; elsewhere the ORM writes
them. Measured for a thousand occurrences: `bulk_create` takes 190 ms, nearly all of it in Python, which
prepares and quotes each value of each row. Here a column with the same value in all rows (most of them) is
sent once, and every other one as one array: 25 ms. The rows in the table are the same.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Field, Model

from punctual.jobs.database import is_postgresql
from punctual.occurrences.database.arrays import array_literal
from punctual.occurrences.models import Occurrence

Row = Mapping[str, Any]  # values by attribute name; columns not named have their default

BATCH = 1000
MAX_ROWS_PER_STATEMENT = 10_000  # after days of downtime there may be many more

# The lock that the foreign key takes at the commit, taken before the insert: it conflicts with deleting only.
# Django's ORM cannot request it.
LOCK_PARENTS = "SELECT id FROM punctual_occurrence WHERE id = ANY(%s::uuid[]) ORDER BY id FOR KEY SHARE"


@contextmanager
def pipeline() -> Iterator[None]:
    """Send statements without waiting for each answer; at the end of the block all have been executed.

    Use inside a transaction, for writes only: a query inside would wait for all statements before it. A
    statement that failed raises at the end. On other databases each statement is waited for.
    """
    if not is_postgresql(connection):
        yield
        return
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


def lock_parents(ids: Collection[UUID]) -> set[UUID]:
    """Lock parent occurrences (FOR KEY SHARE) so that pruning cannot delete them; return those that exist.

    Pruning locks occurrences before it looks for rows that refer to them (`punctual.recovery.pruning`). So a
    parent either exists when a new row refers to it, and stays until that row is visible, or it is gone. Both
    lock in the order of ids, to avoid a deadlock. Call in a transaction; waits for deletions.
    """
    if not is_postgresql(connection):  # one writer at a time: no other process can delete now
        return set(Occurrence.objects.filter(id__any=ids).values_list("id", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(LOCK_PARENTS, [array_literal(ids)])
        return {id_ for (id_,) in cursor.fetchall()}


def insert_missing(model: type[Model], rows: Iterable[Row]) -> int:
    """Insert the rows that no other process has inserted and return their number (not known in `pipeline`).

    Rows are inserted in the order of their ids: unsorted inserts of two processes would deadlock.
    """
    # By the texts of the ids, which sort like the ids: comparing UUIDs takes ten times as long.
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    if not ordered:
        return 0
    if is_postgresql(connection):
        size = MAX_ROWS_PER_STATEMENT
        parts = range(0, len(ordered), size)
        return sum(_insert(model, ordered[start : start + size]) for start in parts)
    instances = [model(**{key: row[key] for key in row if key != "_state"}) for row in ordered]
    connection.ensure_connection()
    before = connection.connection.total_changes  # counted by SQLite
    model._default_manager.bulk_create(instances, ignore_conflicts=True, batch_size=BATCH)  # noqa: SLF001 - documented by Django
    return int(connection.connection.total_changes - before)


def update_rows(rows: Sequence[Model], *columns: str) -> None:
    """Write these columns of rows that the transaction has locked."""
    if not rows:
        return
    model: Any = type(rows[0])
    if is_postgresql(connection):
        _update(model, rows, columns)
    else:
        # INSERT … ON CONFLICT UPDATE of existing rows: one plain statement, where bulk_update would build a
        # CASE of hundreds of branches for each column.
        key = [model._meta.pk.name]
        model.objects.bulk_create(rows, update_conflicts=True, unique_fields=key, update_fields=columns)


# Below, only names of our own tables and columns are formatted into statements; every value is a parameter.


def _insert(model: type[Model], rows: Sequence[Row]) -> int:
    fields: Sequence[Any] = model._meta.concrete_fields
    source = _Source(rows, fields)
    names = ", ".join(_quoted(field.column) for field in fields)
    insert = f"INSERT INTO {_quoted(model._meta.db_table)} ({names}) SELECT {', '.join(source.columns)}"
    return _execute(f"{insert} FROM {source.sql} ON CONFLICT DO NOTHING", source.parameters)


def _update(model: type[Model], rows: Sequence[Model], columns: Sequence[str]) -> None:
    table, key = _quoted(model._meta.db_table), model._meta.pk
    fields: list[Any] = [key, *(model._meta.get_field(name) for name in columns)]
    source = _Source([vars(row) for row in rows], fields, constants=False)
    first, *others = [_quoted(field.column) for field in fields]
    update = f"UPDATE {table} SET {', '.join(f'{name} = source.{name}' for name in others)}"  # noqa: S608 - see above
    _execute(f"{update} FROM {source.sql} WHERE {table}.{first} = source.{first}", source.parameters)


class _Source:
    """Rows as a FROM clause: `unnest` of one array for each column that differs from row to row."""

    def __init__(self, rows: Sequence[Row], fields: Sequence[Any], *, constants: bool = True) -> None:
        self.columns: list[str] = []
        scalars: list[Any] = []
        arrays: list[str] = []
        names: list[str] = []
        casts: list[str] = []
        named = set().union(*rows)
        for field in fields:
            name, type_name, values = _quoted(field.column), _type_name(field), _values(rows, field, named)
            if constants and names and values.count(values[0]) == len(values):
                self.columns.append(f"%s::{type_name}")
                scalars.append(field.get_db_prep_save(values[0], connection))
            else:
                self.columns.append(f"source.{name}")
                names.append(name)
                casts.append(f"%s::{type_name}[]")
                arrays.append(_array(values, type_name))
        self.sql = f"unnest({', '.join(casts)}) AS source ({', '.join(names)})"
        self.parameters = [*scalars, *arrays]


def _values(rows: Sequence[Row], field: Any, named: Set[str]) -> list[Any]:
    default = field.get_default()
    if field.attname not in named:
        return [default]
    return [row.get(field.attname, default) for row in rows]


def _array(values: list[Any], type_name: str) -> str:
    write = WRITERS.get(type_name, _text)
    return array_literal("NULL" if value is None else write(value) for value in values)


def _text(value: Any) -> str:
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json(value: Any) -> str:
    return _text(json.dumps(value))


MICROSECOND = timedelta(microseconds=1)
WRITERS: dict[str, Callable[[Any], str]] = {
    "uuid": str,
    "integer": str,
    "boolean": str,
    "timestamp with time zone": lru_cache(maxsize=4096)(datetime.isoformat),  # a batch has few different ones
    "interval": lambda value: f'"{value // MICROSECOND} microseconds"',
    "jsonb": _json,
}


def _type_name(field: "Field[Any, Any]") -> str:
    # A cast to the column's length would truncate a text instead of refusing it.
    return str(field.db_type(connection)).partition("(")[0]


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


def _execute(sql: str, parameters: list[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)
