"""A step that records a result → repeated while the database is away, so that finished work is kept (TSK-9).

The token fences it: should the claim have expired and the run been taken over meanwhile, the late
record changes nothing. A record whose commit was cut off is the same case: the second one finds that
the run is no longer held.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

from jobs.events import Event, emit

AWAY = (OperationalError, InterfaceError)
LONGEST = 900.0  # seconds; then the lease has long run out, and somebody else has the run
PAUSE = 1.0

Result = TypeVar("Result")
Sleep = Callable[[float], object]


def patiently(step: Callable[[], Result], *, longest: float = LONGEST, sleep: Sleep = time.sleep) -> Result:
    """Inside a transaction there is nothing to repeat: what it did is gone with it."""
    waited = 0.0
    while True:
        try:
            return step()
        except AWAY as error:
            if connection.in_atomic_block or waited >= longest:
                raise
            emit(Event.RESULT_WAITS, waited=waited, error=type(error).__name__)
        connection.close()  # the next try connects anew
        sleep(PAUSE)
        waited += PAUSE
