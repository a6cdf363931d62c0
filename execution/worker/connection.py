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
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import local
from typing import Any

from django.db import connections

from punctual.conf import current_settings
from punctual.execution.worker.database_session import create_session

MAX_UNCHECKED_IDLE = 1.0  # seconds; a connection that was not used for longer is checked before its next use


class OwnConnection:
    """The connection of one thread; as a context manager, in place of the project's."""

    def __init__(self) -> None:
        settings = current_settings()
        self.alias, self._prepared = settings.database, settings.prepared_statements
        self.session = self._create()
        self._used_at = 0.0
        self._uses = 0
        self._host: Any = None
        self._pid = os.getpid()

    def __enter__(self) -> None:
        self._host = _current(self.alias)
        # Django checks a connection with its first statement.
        self.session.health_check_done = time.monotonic() - self._used_at < MAX_UNCHECKED_IDLE
        self._uses = self.session.uses
        connections[self.alias] = self.session
        _thread.installed = self

    def __exit__(self, kind: object, *_: object) -> None:
        _thread.installed = None
        if kind is not None or not (self.session.is_pristine() and self.session.is_idle()):
            self.replace()  # whatever the reason, the next message must not have it too
        elif self.session.uses != self._uses:
            self._used_at = time.monotonic()
        if not self.session.keeps_open:
            self.close()  # a process that is forked must not inherit an open database file
        if self._host is None:
            del connections[self.alias]
        else:
            connections[self.alias] = self._host

    def reset(self) -> None:
        """Remove what code of users has left in the session."""
        if not self.session.reset():
            self.replace()

    def replace(self) -> None:
        """Start over with a new session, which connects when it is used."""
        self.close()
        self.session = connections[self.alias] = self._create()

    def reinstall(self) -> None:
        """Put the session back if code of users has put another in its place."""
        current = _current(self.alias)
        if current is not self.session:
            if current is not None and current is not self._host:
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
        return create_session(connections.settings[self.alias], self.alias, prepared=self._prepared)


class UserCode:
    """While code of users runs, outside of a transaction of ours."""

    def __init__(self, own: OwnConnection) -> None:
        self._own, self._session = own, own.session

    def __enter__(self) -> None:
        session = self._session
        self._uses, self._wrappers = session.uses, [*session.execute_wrappers]
        self._outer, session.runs_user_code = session.runs_user_code, True

    def __exit__(self, *_: object) -> None:
        session = self._session
        session.runs_user_code = self._outer
        self._own.reinstall()
        if session.uses != self._uses or not session.is_idle():
            session.execute_wrappers[:] = self._wrappers
            self._own.reset()


_thread = local()  # a session belongs to one thread, as Django's connections do


def own_connection() -> AbstractContextManager[None]:
    """Work on a message, or on a pass of the supervisor, with the connection of this thread."""
    own: OwnConnection = getattr(_thread, "own", None) or _open()
    return own if own.session.is_shared_database() else nullcontext()


def user_code() -> AbstractContextManager[None]:
    """Call code of users, and reset the session if the code has used it."""
    own: OwnConnection | None = getattr(_thread, "installed", None)
    return nullcontext() if own is None else UserCode(own)


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


def _open() -> OwnConnection:
    own = _thread.own = OwnConnection()
    return own


def _current(alias: str) -> Any:
    """Return what `connections[alias]` is in this thread; None if it was never used."""
    handler: Any = connections
    return getattr(handler._connections, alias, None)  # noqa: SLF001 - the public way would create one


# A forked child must not write to the parent's connection; psycopg does not close it there.
os.register_at_fork(after_in_child=_forget)
