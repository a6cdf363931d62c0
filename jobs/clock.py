"""The database's clock → an aware UTC instant. Doors read it once and pass `now` on (TSK-8)."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.db import connection

Clock = Callable[[], datetime]

SQL = {
    # clock_timestamp, not now(): a long transaction must not freeze time.
    "postgresql": "SELECT clock_timestamp()",
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}
READ_EVERY = 1.0  # seconds
QUICK_READING = 0.005  # seconds; a slower answer is too old to be built upon


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute(SQL[connection.vendor])
        value: datetime | str = cursor.fetchone()[0]
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value.astimezone(UTC)


class SteadyClock:
    """The database's clock, read at most once a second; in between, the time that has passed is added.

    For steps of a message that follow each other within milliseconds. The machine's own idea of the time
    of day plays no part. It may be ahead of the database by the few milliseconds a reading takes, and
    never behind: what was released a moment ago is not found to lie in the future.
    """

    def __init__(self) -> None:
        self._reading: tuple[datetime, float] | None = None

    def __call__(self) -> datetime:
        began = time.monotonic()
        if self._reading and began - self._reading[1] < READ_EVERY:
            return self._reading[0] + timedelta(seconds=began - self._reading[1])
        now = database_now()
        self._reading = (now, began) if time.monotonic() - began < QUICK_READING else None
        return now


steady_now = SteadyClock()
