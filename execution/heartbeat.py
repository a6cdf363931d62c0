"""A claim → a lease kept alive while its function runs (TSK-2). A short task never starts the thread's work.

The first renewal is due after a third of the lease; an attempt that ends before costs nothing but an
idle timer. A renewal that is refused means the run is no longer ours: the task is told through
`ctx.canceled`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Event, Thread

from django.db import DatabaseError, InterfaceError, connection

from execution.claim import LEASE, Claim
from occurrences import transitions

Clock = Callable[[], datetime]


@contextmanager
def heartbeat(claim: Claim, *, clock: Clock, lease: timedelta = LEASE) -> Iterator[Event]:
    """Yields the event that tells the task to stop."""
    stop, done = Event(), Event()
    thread = Thread(target=_beat, args=(claim, stop, done, clock, lease), daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        done.set()
        thread.join()


def _beat(claim: Claim, stop: Event, done: Event, clock: Clock, lease: timedelta) -> None:
    try:
        while not done.wait(lease.total_seconds() / 3):
            try:
                if not transitions.renew(claim.run.id, token=claim.token, now=clock(), lease=lease):
                    stop.set()
                    return
            except (DatabaseError, InterfaceError):
                # The database may be back before the lease runs out; if not, the claim expires.
                connection.close()
    finally:
        connection.close()
