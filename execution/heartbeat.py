"""A claim → a lease kept alive while its function runs (TSK-2). A short task never costs a renewal.

The first renewal is due after a third of the lease. A renewal that is refused means the run is no
longer ours: the task is told through `ctx.canceled`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Event

from django.db import DatabaseError, InterfaceError

from execution.claim import LEASE, Claim
from execution.watcher import watcher
from occurrences import transitions

Clock = Callable[[], datetime]


@contextmanager
def heartbeat(claim: Claim, *, clock: Clock, lease: timedelta = LEASE) -> Iterator[Event]:
    """Yields the event that tells the task to stop."""
    stop = Event()
    interval = lease.total_seconds() / 3

    def beat() -> float | None:
        try:
            if transitions.renew(claim.run.id, token=claim.token, now=clock(), lease=lease):
                return interval
        except (DatabaseError, InterfaceError):
            return interval  # it may be back before the lease runs out; if not, the claim expires
        stop.set()
        return None

    with watcher.after(interval, beat):
        yield stop
