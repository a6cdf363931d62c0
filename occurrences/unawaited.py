"""Statements whose answers nobody needs yet → sent one after the other, while this process goes on working.

PostgreSQL works on another processor, so that what is computed meanwhile costs no time. At the end all
answers are in, and a statement that failed raises there. Elsewhere each statement is waited for, as ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def unawaited() -> Iterator[None]:
    """Inside a transaction, and for writing only: a question asked inside would wait for all before it."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


def checked() -> None:
    """References are checked now and not at the commit, which everybody waits for."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
