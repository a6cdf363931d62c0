"""Execute raw statements that PostgreSQL plans once for each connection."""

from threading import local
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, connections

if TYPE_CHECKING:
    from psycopg import Cursor


def fetch_rows(sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Execute a statement and return its rows."""
    with connections[DEFAULT_DB_ALIAS].wrap_database_errors:
        return _cursor().execute(sql, parameters).fetchall()


_thread = local()


def _cursor() -> "Cursor[tuple[Any, ...]]":
    """A cursor with parameters bound by the server; Django's sends them inside the text, so that PostgreSQL
    plans every call anew. Kept with its connection: creating one takes as long as the rest of a call."""
    wrapper: Any = connections[DEFAULT_DB_ALIAS]  # `connection` would look it up at each access
    wrapper.validate_no_broken_transaction()
    wrapper.close_if_health_check_failed()
    wrapper.ensure_connection()
    if getattr(_thread, "connection", None) is not wrapper.connection:
        from psycopg import Cursor  # noqa: PLC0415 - missing in a SQLite installation
        from psycopg.rows import tuple_row  # noqa: PLC0415

        _thread.connection = wrapper.connection
        _thread.cursor = Cursor(wrapper.connection, row_factory=tuple_row)
    cursor: Cursor[tuple[Any, ...]] = _thread.cursor
    return cursor
