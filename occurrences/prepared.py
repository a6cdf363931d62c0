"""PostgreSQL: a statement and its values → rows, planned once for as long as the connection lasts."""

from threading import local
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, connections

if TYPE_CHECKING:
    from psycopg import Cursor


def rows(sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connections[DEFAULT_DB_ALIAS].wrap_database_errors:
        return _cursor().execute(sql, parameters).fetchall()


_own = local()


def _cursor() -> "Cursor[tuple[Any, ...]]":
    """Not Django's: that one sends the values inside the text, so that every call is planned anew. Kept with
    its connection: making one takes as long as the rest of a call."""
    held: Any = connections[DEFAULT_DB_ALIAS]  # `connection` would look it up at each word
    held.validate_no_broken_transaction()
    held.close_if_health_check_failed()
    held.ensure_connection()
    if getattr(_own, "connection", None) is not held.connection:
        from psycopg import Cursor  # noqa: PLC0415 - not there on SQLite alone
        from psycopg.rows import tuple_row  # noqa: PLC0415

        _own.connection, _own.cursor = held.connection, Cursor(held.connection, row_factory=tuple_row)
    cursor: Cursor[tuple[Any, ...]] = _own.cursor
    return cursor
