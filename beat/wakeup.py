"""A wait that ends early when work is committed elsewhere: PostgreSQL's NOTIFY; a plain sleep otherwise.

A trigger or an edit notifies on CHANNEL (see occurrences.triggers); beats listen on a connection of
their own, for the one Django holds is busy with transactions. Polling stays the fallback: a wait
never lasts longer than the tick asked for.
"""

import time
from typing import Any

from django.db import DatabaseError, connection

from occurrences.triggers import CHANNEL

RETRY_AFTER = 30.0  # seconds before a listener that could not connect tries again
CONNECTION = ("host", "port", "dbname", "user", "password", "connect_timeout", "sslmode", "service")


class Wakeup:
    def __init__(self) -> None:
        self._listener: Any = None
        self._broken_at = -RETRY_AFTER

    def wait(self, seconds: float) -> bool:
        """Up to `seconds`; True when somebody called."""
        if (listener := self._connected()) is not None:
            try:
                with connection.wrap_database_errors:
                    return any(True for _ in listener.notifies(timeout=seconds, stop_after=1))
            except DatabaseError:
                self._give_up()
        time.sleep(seconds)
        return False

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _connected(self) -> Any:
        if connection.vendor != "postgresql":
            return None
        if self._listener is None and time.monotonic() - self._broken_at >= RETRY_AFTER:
            try:
                with connection.wrap_database_errors:
                    self._listener = _listen()
            except DatabaseError:
                self._give_up()
        return self._listener

    def _give_up(self) -> None:
        self.close()
        self._broken_at = time.monotonic()


def _listen() -> Any:
    postgres: Any = connection
    parameters = postgres.get_connection_params()
    wanted = {key: parameters[key] for key in CONNECTION if key in parameters}
    listener = postgres.Database.connect(**wanted, autocommit=True)
    listener.execute(f"LISTEN {CHANNEL}")
    return listener
