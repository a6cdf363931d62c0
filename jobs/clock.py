"""Read the database's clock, as aware UTC. Entry points read it once and pass `now` on (TSK-8)."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.db import connection

from punctual.jobs.database import read_clock

Clock = Callable[[], datetime]

READ_INTERVAL = 1.0  # seconds
MAX_READING_TIME = 0.005  # seconds; a slower answer is not extrapolated


def database_now() -> datetime:
    """Ask the database for the time."""
    value: datetime | str = read_clock(connection)
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value.astimezone(UTC)


class SteadyClock:
    """The database's clock, read at most once a second and extrapolated with the monotonic clock.

    For the steps of one message, which follow each other within milliseconds. The machine's time of day is
    not used. The result may be ahead of the database by the few milliseconds that a reading takes, never
    behind: a row released a moment ago is never due in the future.
    """

    def __init__(self) -> None:
        self._reading: tuple[datetime, float] | None = None

    def __call__(self) -> datetime:
        started = time.monotonic()
        if self._reading and started - self._reading[1] < READ_INTERVAL:
            return self._reading[0] + timedelta(seconds=started - self._reading[1])
        now = database_now()
        self._reading = (now, started) if time.monotonic() - started < MAX_READING_TIME else None
        return now


steady_now = SteadyClock()
