"""Empty the tables after a test that commits, in a few milliseconds.

Django's flush truncates every table and then creates all content types and permissions again, which takes a
fifth of a second. Here only tables that hold rows are emptied, and the rows of the migrations stay.
"""

from dataclasses import dataclass
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Emptier:
    """`kept` maps a table that the migrations filled to its rows."""

    tables: tuple[str, ...]
    kept: dict[str, Rows]

    def empty(self) -> None:
        with transaction.atomic():  # foreign keys are checked at its end, so that any order will do
            changed = [table for table, rows in self.kept.items() if read(table) != rows]
            filled = [table for table in filled_tables(self.tables) if table not in self.kept]
            with connection.cursor() as cursor:
                for table in filled + changed:
                    cursor.execute(f"DELETE FROM {quoted(table)}")  # noqa: S608 - Django's names
                for table in changed:
                    insert(table, self.kept[table])
        if changed:
            ContentType.objects.clear_cache()


def emptier() -> Emptier:
    """Remember the rows of a database that has just been migrated."""
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = tuple(sorted(names))
    return Emptier(tables, {table: read(table) for table in filled_tables(tables)})


def filled_tables(tables: tuple[str, ...]) -> list[str]:
    sql = " UNION ALL ".join(
        f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {quoted(table)})"  # noqa: S608
        for table in tables
    )
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [table for (table,) in cursor.fetchall()]


def read(table: str) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {quoted(table)} ORDER BY 1")  # noqa: S608
        return list(cursor.fetchall())


def insert(table: str, rows: Rows) -> None:
    places = ", ".join(["%s"] * len(rows[0]))
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {quoted(table)} VALUES ({places})", rows)  # noqa: S608


def quoted(table: str) -> str:
    return connection.ops.quote_name(table)
