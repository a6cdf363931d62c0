"""The `delay:` kind: the next instant is a fixed delay after the end of the previous run.

The other kinds name instants of the calendar. This one counts from an event: callers pass the end of a
run to `next_after`. `between` assumes that every run takes no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from punctual.schedules.durations import format_duration, parse_duration
from punctual.schedules.errors import DelayError
from punctual.schedules.text import BLANKS, clip, text_problem
from punctual.schedules.utc import LATEST, format_bounds, iterate, utc

MIN_DELAY = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """One run at a time, and a pause of this length after each; no start before `start` or after `end`."""

    delay: timedelta
    start: datetime | None = None
    end: datetime | None = None

    def next_after(self, instant: datetime, /) -> datetime | None:
        ended = utc(instant)
        following = ended + self.delay if self.delay <= LATEST - ended else None
        if following is not None and self.start is not None:
            following = max(following, self.start)
        return None if following is None or (self.end is not None and following > self.end) else following

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return iterate(self.next_after, start, end)

    def __str__(self) -> str:
        return f"delay:{format_duration(self.delay)}{format_bounds(self.start, self.end)}"


def parse(
    text: str,
    *,
    reference: datetime | None = None,  # noqa: ARG001 -- every kind is called alike
    timezone: str | tzinfo | None = None,  # noqa: ARG001
    trigger_id: str = "",  # noqa: ARG001
) -> FixedDelay:
    """Parse a delay such as `5m` or `1h30m`, one second or longer."""
    delay = None if text_problem(text) else parse_duration(text.strip(BLANKS))
    if delay is None or delay < MIN_DELAY:
        message = f"delay: invalid duration '{clip(text)}', expected one such as 30s, 5m or 1h30m"
        raise DelayError(message, field="delay", value=clip(text), position=0)
    return FixedDelay(delay)
