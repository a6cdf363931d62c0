"""Limit any schedule to a start and an end without moving its phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from punctual.schedules.kinds import Schedule
from punctual.schedules.utc import TICK, utc


@dataclass(frozen=True, slots=True)
class Bounded:
    """Fires when the inner schedule does and start <= instant <= end."""

    inner: Schedule
    start: datetime | None
    end: datetime | None

    def next_after(self, instant: datetime, /) -> datetime | None:
        instant = utc(instant)
        if self.start is not None and instant < self.start:
            instant = self.start - TICK
        following = self.inner.next_after(instant)
        return None if following is None or (self.end is not None and following > self.end) else following

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        start, end = utc(start, "start"), utc(end, "end")
        if self.start is not None:
            start = max(start, self.start - TICK)
        if self.end is not None:
            end = min(end, self.end)
        return self.inner.between(start, end)

    def is_active(self, instant: datetime) -> bool:
        """Whether the instant lies inside the bounds."""
        instant = utc(instant)
        begun = self.start is None or self.start <= instant
        return begun and (self.end is None or instant <= self.end)


def bound(schedule: Schedule, *, start: datetime | None = None, end: datetime | None = None) -> Bounded:
    """Limit a schedule; both bounds are inclusive and optional."""
    return Bounded(
        schedule,
        None if start is None else utc(start, "start"),
        None if end is None else utc(end, "end"),
    )
