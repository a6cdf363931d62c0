"""A beat's database session → one that finds rows by their ids, and that ends when the beat falls silent in
the middle of a transaction.

A beat whose machine froze still holds its locks, and other beats leave to it what it holds. So the
server is told to end a session that is silent for so long inside a transaction: what it held is free,
and the beat, should it wake up, finds its transaction gone and starts over.
"""

from datetime import timedelta
from typing import Any

from django.db import connection

# What a tick looks up by id was written lately, and is in memory. By PostgreSQL's own estimate, made for
# disks that turn, reading a whole table of a hundred thousand jobs would be cheaper than finding a thousand.
RANDOM_PAGE_COST = 1.1
LONGEST_SILENCE = timedelta(minutes=1)  # a busy tick computes, and talks to the broker, for seconds at most


class Session:
    def __init__(self, longest: timedelta = LONGEST_SILENCE) -> None:
        self._longest = longest
        self._told: Any = None

    def bound_silence(self) -> None:
        """Once for each connection: it may be another one than at the last tick."""
        connection.ensure_connection()
        if connection.vendor != "postgresql" or connection.connection is self._told:
            return
        milliseconds = self._longest // timedelta(milliseconds=1)
        with connection.cursor() as cursor:
            cursor.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
            cursor.execute(f"SET random_page_cost = {RANDOM_PAGE_COST}")
        self._told = connection.connection
