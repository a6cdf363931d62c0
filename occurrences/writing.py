"""Many rows → one INSERT or one UPDATE: on PostgreSQL from arrays, elsewhere through the ORM.

Measured for a thousand occurrences: `bulk_create` takes 190 ms, nearly all of it in Python, where each
value of each row is prepared, quoted and parsed by itself. Here a column that is the same in all rows
(most are) is sent once, and the others as one array each: 25 ms. What ends up in the table is the same.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Field, Model

from occurrences.arrays import literal

Row = Mapping[str, Any]  # columns by attribute name; what is not named has its default

BATCH = 1000
MOST = 10_000  # rows in a statement: what a beat that was away for days has to catch up on comes in parts


def insert_missing(model: type[Model], rows: Iterable[Row]) -> int:
    """Insert what nobody has inserted yet, in id order: unsorted inserts of two processes would deadlock.

    How many those were; inside `unawaited` nobody knows yet.
    """
    # By the text of an id, which is in the order of the ids: comparing UUIDs takes ten times as long.
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    if not ordered:
        return 0
    if connection.vendor == "postgresql":
        parts = range(0, len(ordered), MOST)
        return sum(_insert(model, ordered[start : start + MOST]) for start in parts)
    made = [model(**{key: row[key] for key in row if key != "_state"}) for row in ordered]
    connection.ensure_connection()
    before = connection.connection.total_changes  # SQLite's own count
    model._default_manager.bulk_create(made, ignore_conflicts=True, batch_size=BATCH)  # noqa: SLF001 - Django's own
    return int(connection.connection.total_changes - before)


def update_rows(rows: Sequence[Model], *columns: str) -> None:
    """Write these columns of rows this transaction holds."""
    if not rows:
        return
    model: Any = type(rows[0])
    if connection.vendor == "postgresql":
        _update(model, rows, columns)
    else:
        # INSERT … ON CONFLICT UPDATE of rows that are there: one plain statement, where bulk_update would
        # build a CASE of hundreds of branches for each column.
        key = [model._meta.pk.name]
        model.objects.bulk_create(rows, update_conflicts=True, unique_fields=key, update_fields=columns)


# Below only names of our own tables and columns are pasted into statements; every value is a parameter.


def _insert(model: type[Model], rows: Sequence[Row]) -> int:
    fields: Sequence[Any] = model._meta.concrete_fields
    source = _Source(rows, fields)
    names = ", ".join(_quoted(field.column) for field in fields)
    what = f"INSERT INTO {_quoted(model._meta.db_table)} ({names}) SELECT {', '.join(source.columns)}"
    return _execute(f"{what} FROM {source.sql} ON CONFLICT DO NOTHING", source.parameters)


def _update(model: type[Model], rows: Sequence[Model], columns: Sequence[str]) -> None:
    table, key = _quoted(model._meta.db_table), model._meta.pk
    fields: list[Any] = [key, *(model._meta.get_field(name) for name in columns)]
    source = _Source([vars(row) for row in rows], fields, constants=False)
    first, *others = [_quoted(field.column) for field in fields]
    what = f"UPDATE {table} SET {', '.join(f'{name} = source.{name}' for name in others)}"  # noqa: S608 - see above
    _execute(f"{what} FROM {source.sql} WHERE {table}.{first} = source.{first}", source.parameters)


class _Source:
    """Rows as a FROM clause: `unnest` of one array per column that differs from row to row."""

    def __init__(self, rows: Sequence[Row], fields: Sequence[Any], *, constants: bool = True) -> None:
        self.columns: list[str] = []
        scalars: list[Any] = []
        arrays: list[str] = []
        names: list[str] = []
        casts: list[str] = []
        named = set().union(*rows)
        for field in fields:
            name, kind, values = _quoted(field.column), _kind(field), _values(rows, field, named)
            if constants and names and values.count(values[0]) == len(values):
                self.columns.append(f"%s::{kind}")
                scalars.append(field.get_db_prep_save(values[0], connection))
            else:
                self.columns.append(f"source.{name}")
                names.append(name)
                casts.append(f"%s::{kind}[]")
                arrays.append(_array(values, kind))
        self.sql = f"unnest({', '.join(casts)}) AS source ({', '.join(names)})"
        self.parameters = [*scalars, *arrays]


def _values(rows: Sequence[Row], field: Any, named: Set[str]) -> list[Any]:
    default = field.get_default()
    if field.attname not in named:
        return [default]
    return [row.get(field.attname, default) for row in rows]


def _array(values: list[Any], kind: str) -> str:
    written = WRITERS.get(kind, _text)
    return literal("NULL" if value is None else written(value) for value in values)


def _text(value: Any) -> str:
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json(value: Any) -> str:
    return _text(json.dumps(value))


MICROSECOND = timedelta(microseconds=1)
WRITERS: dict[str, Callable[[Any], str]] = {
    "uuid": str,
    "integer": str,
    "boolean": str,
    "timestamp with time zone": lru_cache(maxsize=4096)(datetime.isoformat),  # a batch has a few
    "interval": lambda value: f'"{value // MICROSECOND} microseconds"',
    "jsonb": _json,
}


def _kind(field: "Field[Any, Any]") -> str:
    # Cast to its length, a text would be cut instead of refused.
    return str(field.db_type(connection)).partition("(")[0]


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


def _execute(sql: str, parameters: list[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)
