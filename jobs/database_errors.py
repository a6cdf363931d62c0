"""Tell what an error of the database means: a row is locked, or the database is away."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError

from punctual.jobs.events import Event, emit

LOCK_CONFLICTS = ("55P03", "40P01", "40001")  # lock_timeout, deadlock, serialization failure
READ_ONLY = "25006"  # a standby that was not promoted yet, or default_transaction_read_only
IDLE_FOR_TOO_LONG = "25P03"  # the server has ended the session of a process that was frozen


def sqlstate(error: BaseException) -> str:
    """PostgreSQL's code of an error that Django has wrapped; empty without one."""
    return getattr(error.__cause__, "sqlstate", None) or ""


def is_lock_conflict(error: BaseException) -> bool:
    """Whether another session's lock was in the way: the same statement may succeed later."""
    return sqlstate(error) in LOCK_CONFLICTS


def is_database_away(error: BaseException) -> bool:
    """Whether the database cannot write at the moment, for a reason that is not the statement's.

    OperationalError covers a broken connection, a server that starts, stops or has no connection, memory or
    disk space left, timeouts and lock conflicts. For the other two psycopg raises InternalError.
    """
    return isinstance(error, OperationalError | InterfaceError) or sqlstate(error) in (
        READ_ONLY,
        IDLE_FOR_TOO_LONG,
    )


def leave_out(step: str, error: OperationalError) -> None:
    """Leave out a step of a beat or a supervisor because another session holds a row it needs; raise any
    other error.

    Neither waits longer than the lock_timeout of its session, so one held row cannot stop the steps that do
    not need it. The next tick or pass repeats the step.
    """
    if not is_lock_conflict(error):
        raise error
    emit(Event.STEP_BLOCKED, step=step, detail=" ".join(str(error).split())[:300])


@contextmanager
def unless_locked(step: str) -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        leave_out(step, error)
