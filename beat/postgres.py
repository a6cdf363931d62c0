"""What a beat does with PostgreSQL only: session settings, and LISTEN to wake up early.

On other databases a session needs no settings and a wait is a plain sleep.
"""

import time
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, connection

from punctual.conf import current_settings
from punctual.execution.worker.database_session import PREPARE_THRESHOLD, use_fast_loader
from punctual.jobs.database import CHANNEL, is_postgresql

# Rows that a tick reads by id were written recently and are cached. With the default cost, meant for spinning
# disks, the planner would rather read a table of 100,000 jobs than look up a thousand of them.
RANDOM_PAGE_COST = 1.1
MAX_IDLE_IN_TRANSACTION = timedelta(minutes=1)  # a busy tick computes, or talks to the broker, for seconds
LOCK_TIMEOUT = timedelta(milliseconds=500)  # of a step; a beat skips locked rows, this is for all other waits
LISTEN_RETRY_SECONDS = 30.0
CONNECTION = ("host", "port", "dbname", "user", "password", "connect_timeout", "sslmode", "service")


class Session:
    """Settings of the beat's database session, applied once per connection.

    The connection is Django's, but the process is a beat with our scheduler class: it calls no code of the
    project but custom schedules and parameters, so that no other code meets these settings.

    A beat whose machine froze keeps its locks, and other beats skip what it has locked. The server therefore
    ends a session that is idle for too long inside a transaction; the beat, if it wakes up, starts over.

    A session that is not ours may hold any row for hours. A statement that waits for it fails after
    LOCK_TIMEOUT, and the tick goes on without that step.
    """

    def __init__(self, max_idle: timedelta = MAX_IDLE_IN_TRANSACTION) -> None:
        self._max_idle = max_idle
        self._configured: Any = None  # the connection that has the settings

    def configure(self) -> None:
        """Call before each tick: the connection may have been replaced."""
        connection.ensure_connection()
        if not is_postgresql(connection) or connection.connection is self._configured:
            return
        milliseconds = self._max_idle // timedelta(milliseconds=1)
        with connection.cursor() as cursor:
            cursor.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
            cursor.execute(f"SET lock_timeout = {LOCK_TIMEOUT // timedelta(milliseconds=1)}")
            cursor.execute(f"SET random_page_cost = {RANDOM_PAGE_COST}")
        use_fast_loader(connection)
        if current_settings().prepared_statements and connection.connection.prepare_threshold is None:
            connection.connection.prepare_threshold = PREPARE_THRESHOLD
        wrapper: Any = connection
        wrapper.runs_user_code = False  # see `lock_pools` in punctual.occurrences.engines.postgresql
        self._configured = connection.connection


# One statement for all that a tick would ask: when is the next row due, and has a sweep anything to do?
# The process row is renewed on the way; if another session holds it, it is left as it is.
LOOK_AHEAD = """
WITH mine AS MATERIALIZED (
    SELECT name FROM punctual_process WHERE name = %s FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
    UPDATE punctual_process process SET seen_at = clock_timestamp(), tick_duration = interval '0'
    FROM mine WHERE process.name = mine.name RETURNING process.name
)
SELECT clock_timestamp(), LEAST(
        (SELECT min(run_at) FROM punctual_occurrence WHERE state = 'pending'),
        (SELECT min(available_at) FROM punctual_taskrun WHERE state = 'retry' AND parked_at IS NULL),
        (SELECT min(plan_at) FROM punctual_cursor WHERE plan_at IS NOT NULL),
        (SELECT due_at FROM punctual_pruneround)
    ),
    EXISTS (SELECT FROM renewed) AND EXISTS (SELECT FROM punctual_pruneround)
    AND NOT EXISTS (SELECT FROM punctual_occurrence WHERE state = 'queued')
    AND NOT EXISTS (SELECT FROM punctual_occurrence WHERE state IN ('dispatched', 'running'))
    AND NOT EXISTS (SELECT FROM punctual_occurrence WHERE finished_at IS NOT NULL AND finalized_at IS NULL)
"""


def idle_time(beat: str) -> timedelta | None:
    """How long there is nothing to do, and renew the beat's row; None: a tick is needed.

    An idle beat asks this once a second, instead of twenty questions.
    """
    if not is_postgresql(connection):
        return None
    with connection.cursor() as cursor:
        cursor.execute(LOOK_AHEAD, [beat])
        now, next_due, idle = cursor.fetchone()
    return next_due - now if idle and next_due > now else None


class Wakeup:
    """A wait that ends early when another process commits work: triggers and edits NOTIFY on `CHANNEL`.

    Beats listen on a connection of their own, because Django's is used for transactions. Polling remains the
    fallback: a wait never lasts longer than requested.
    """

    def __init__(self) -> None:
        self._listener: Any = None
        self._failed_at = -LISTEN_RETRY_SECONDS

    def wait(self, seconds: float) -> bool:
        """Wait for up to `seconds`; True when a notification ended the wait."""
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
        if not is_postgresql(connection):
            return None
        if self._listener is None and time.monotonic() - self._failed_at >= LISTEN_RETRY_SECONDS:
            try:
                with connection.wrap_database_errors:
                    self._listener = _listen()
            except DatabaseError:
                self._give_up()
        return self._listener

    def _give_up(self) -> None:
        self.close()
        self._failed_at = time.monotonic()


def _listen() -> Any:
    postgres: Any = connection
    parameters = postgres.get_connection_params()
    chosen = {key: parameters[key] for key in CONNECTION if key in parameters}
    listener = postgres.Database.connect(**chosen, autocommit=True)
    listener.execute(f"LISTEN {CHANNEL}")
    return listener
