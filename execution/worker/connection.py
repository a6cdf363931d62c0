"""Keep a database connection of the worker's own, and use it while a message of ours is worked on.

Celery closes Django's connections before and after each task. A new connection costs PostgreSQL a process,
and the worker more time than the rest of a short message. The project's connections stay as they are, with
its options: ours takes their place as `connections[alias]` for the time of a message, in its thread only.

Functions and hooks use the same connection, so that a transactional function commits together with its
report. What they leave behind in the session would make every later claim fail: after code that used the
connection the session is reset, or replaced if that does not help. A connection or cursor of the driver that
code keeps beyond its call is not noticed, unless it leaves a transaction open.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import local
from typing import Any

from django.db import connections

from punctual.conf import current_settings
from punctual.execution.worker.database_session import create_session

MAX_UNCHECKED_IDLE = 1.0  # seconds; a connection that was not used for longer is checked before its next use


class OwnConnection:
    """The connection of one thread."""

    def __init__(self, lock_timeout: str) -> None:
        settings = current_settings()
        self.alias, self._prepared = settings.database, settings.prepared_statements
        self._lock_timeout = lock_timeout
        self.session = self._create()
        self.sees_same_tables = self.session.is_shared_database()
        self.used_at = 0.0
        self.host: Any = None  # what has to come back into its place; None: nothing was there
        self._pid = os.getpid()

    def reset(self) -> None:
        """Remove what code of users has left in the session."""
        if not self.session.reset():
            self.replace()

    def replace(self) -> None:
        """Start over with a new session, which connects when it is used."""
        self.close()
        self.session = connections[self.alias] = self._create()

    def reinstall(self, current: Any) -> None:
        """Put the session back: code of users has put another in its place."""
        if current is not self.host:
            with suppress(Exception):  # it is given up
                current.close()
        connections[self.alias] = self.session

    def close(self) -> None:
        """Close the connection itself: Django's close() refuses inside a transaction that was left open."""
        if self._pid == os.getpid():  # in a forked child it is still the parent's
            with suppress(Exception):  # it is given up
                self.session.abandon()
        self.session.connection = None

    def _create(self) -> Any:
        host = connections.settings[self.alias]
        return create_session(host, self.alias, prepared=self._prepared, lock_timeout=self._lock_timeout)


_thread = local()  # a session belongs to one thread, as Django's connections do


@contextmanager
def own_connection(*, lock_timeout: str = "") -> Iterator[None]:
    """Work on a message, or on a pass of the supervisor, with the connection of this thread.

    `lock_timeout` is for threads that call no code of users.
    """
    own: OwnConnection = getattr(_thread, "own", None) or _open(lock_timeout)
    if not own.sees_same_tables:
        yield
        return
    handler: Any = connections
    own.host = getattr(handler._connections, own.alias, None)  # noqa: SLF001 - the public way would create one
    uses = own.session.uses
    # Django checks a connection with its first statement.
    own.session.health_check_done = time.monotonic() - own.used_at < MAX_UNCHECKED_IDLE
    connections[own.alias] = own.session
    _thread.installed = own
    failed = True
    try:
        yield
        failed = False
    finally:
        _thread.installed = None
        if failed or not (own.session.is_pristine() and own.session.is_idle()):
            own.replace()  # whatever the reason, the next message must not have it too
        elif own.session.uses != uses:
            own.used_at = time.monotonic()
        if not own.session.keeps_open:
            own.close()  # a process that is forked must not inherit an open database file
        if own.host is None:
            del connections[own.alias]
        else:
            connections[own.alias] = own.host


@contextmanager
def user_code() -> Iterator[None]:
    """Call code of users, outside of a transaction of ours; reset the session if the code has used it."""
    own: OwnConnection | None = getattr(_thread, "installed", None)
    if own is None:
        yield
        return
    session = own.session
    uses, wrappers, outer = session.uses, [*session.execute_wrappers], session.runs_user_code
    session.runs_user_code = True
    try:
        yield
    finally:
        session.runs_user_code = outer
        if (current := connections[own.alias]) is not own.session:
            own.reinstall(current)
        if session.uses != uses or not session.is_idle():
            session.execute_wrappers[:] = wrappers
            own.reset()


def close_own_connection() -> None:
    """Close the connection of this thread, which is about to end."""
    own: OwnConnection | None = getattr(_thread, "own", None)
    if own is not None:
        own.close()
        vars(_thread).clear()


def _forget() -> None:
    own: OwnConnection | None = getattr(_thread, "own", None)
    if own is not None:
        own.session.connection = None  # if the child goes on with the session, it connects anew
    vars(_thread).clear()


def _open(lock_timeout: str) -> OwnConnection:
    own = _thread.own = OwnConnection(lock_timeout)
    return own


# A forked child must not write to the parent's connection; psycopg does not close it there.
os.register_at_fork(after_in_child=_forget)
