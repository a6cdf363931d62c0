"""Name the sessions that have held locks on our tables for long: what needs such a row waits for them.

Beats and workers leave out rows that another session holds, so nothing else waits, and nothing else shows it.
Only PostgreSQL has such sessions; a role without `pg_read_all_stats` sees its own.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db import connection

from punctual.jobs.database import read_lock_holders

LONG = timedelta(seconds=5)  # beats and workers hold locks for less, unless they are frozen


@dataclass(frozen=True)
class LockHolder:
    """A session with an open transaction; `waiting` are sessions that wait for it at this moment."""

    pid: int
    application: str
    state: str
    age: timedelta
    tables: tuple[str, ...]
    waiting: int

    def __str__(self) -> str:
        name = f"session {self.pid}" + (f" ({self.application})" if self.application else "")
        seconds = self.age.total_seconds()
        text = f"{name} has held rows of {', '.join(self.tables)} for {seconds:.0f} s, {self.state}"
        return f"{text}; {self.waiting} waiting" if self.waiting else text


def lock_holders(min_age: timedelta = LONG) -> list[LockHolder]:
    """The sessions, the oldest transaction first."""
    return [
        LockHolder(pid, application, state, age, tuple(tables), waiting)
        for pid, application, state, age, tables, waiting in read_lock_holders(connection, min_age)
    ]
