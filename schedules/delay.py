"""A duration in -> the schedule whose next instant is that long after the previous run has ended out.

The other kinds name instants of the calendar. This one counts from an event, so `next_after` is asked
with the end of a run; without runs it names what would come if every run took no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from schedules.durations import format_duration, parse_duration
from schedules.errors import DelayError
from schedules.instants import LATEST, each, utc
from schedules.text import BLANKS, clip

SHORTEST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """At most one run at a time, and a rest of this length after each."""

    delay: timedelta

    def next_after(self, instant: datetime, /) -> datetime | None:
        end = utc(instant)
        return end + self.delay if self.delay <= LATEST - end else None

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return each(self.next_after, start, end)

    def __str__(self) -> str:
        return f"delay:{format_duration(self.delay)}"


def parse(
    text: str,
    *,
    reference: datetime | None = None,  # noqa: ARG001 -- every kind is called alike
    timezone: str | tzinfo | None = None,  # noqa: ARG001
    trigger_id: str = "",  # noqa: ARG001
) -> FixedDelay:
    """`5m`, `1h30m`: at least a second."""
    found = parse_duration(text.strip(BLANKS))
    if found is None or found < SHORTEST:
        message = f"delay: invalid duration '{clip(text)}', expected one such as 30s, 5m or 1h30m"
        raise DelayError(message, field="delay", value=clip(text), position=0)
    return FixedDelay(found)
