"""Pipeline writes on PostgreSQL: send statements without waiting for each answer.

The server executes them while this process computes. At the end of the block all answers have arrived, and a
statement that failed raises there. On other databases each statement is waited for.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from punctual.occurrences.database.vendor import is_postgresql


@contextmanager
def unawaited() -> Iterator[None]:
    """Use inside a transaction, for writes only: a query inside would wait for all statements before it."""
    if not is_postgresql(connection):
        yield
        return
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


def checked() -> None:
    """Check foreign keys now instead of at the commit."""
    if is_postgresql(connection):
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
