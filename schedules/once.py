"""The `once:` kind: a single instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from punctual.schedules.errors import Iso8601Error
from punctual.schedules.text import BLANKS, clip, text_problem
from punctual.schedules.utc import iterate, rfc3339, utc
from punctual.schedules.wall_clock.moments import parse_moment
from punctual.schedules.wall_clock.zones import zone_of


@dataclass(frozen=True, slots=True)
class Once:
    """A single instant."""

    instant: datetime

    def next_after(self, instant: datetime, /) -> datetime | None:
        return self.instant if utc(instant) < self.instant else None

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return iterate(self.next_after, start, end)

    def __str__(self) -> str:
        return f"once:{rfc3339(self.instant)}"


def at(instant: datetime) -> Once:
    """Make the schedule of one aware instant."""
    return Once(utc(instant))


def parse(
    text: str,
    *,
    reference: datetime | None = None,  # noqa: ARG001 -- every kind is called alike
    timezone: str | tzinfo | None = None,
    trigger_id: str = "",  # noqa: ARG001
) -> Once:
    """Parse an ISO 8601 datetime; without an offset it is local time in the caller's zone."""
    zone = zone_of("UTC" if timezone is None else timezone)
    moment = None if text_problem(text) else parse_moment(text.strip(BLANKS))
    if moment is None:
        message = f"once: invalid datetime format '{clip(text)}'"
        raise Iso8601Error(message, field="once", value=clip(text), position=0)
    return Once(moment.starts(zone))
