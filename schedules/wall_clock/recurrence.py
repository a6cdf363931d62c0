"""Compute the instants of a pattern in a zone.

Wall times map to instants in order: a time inside a gap to the end of the gap, any other time to its
first showing. `next_after` therefore takes one search on the wall clock and one placement, however far
away the result is. Only inside a fold is a second search needed, for wall times that are repeated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from punctual.schedules.utc import TICK, clamp, utc
from punctual.schedules.wall_clock.timetable import Timetable
from punctual.schedules.wall_clock.zones import DstRule, Fold, Gap, Zone

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


class Recurrence:
    """A pattern in a zone, under one rule for gaps and folds."""

    __slots__ = ("_after", "_is_utc", "_settled", "rule", "table", "zone")

    def __init__(self, table: Timetable, zone: Zone, rule: DstRule) -> None:
        self.table = table
        self.zone = zone
        self.rule = rule
        self._is_utc = zone.is_utc
        self._settled = zone.settled
        self._after = table.after

    def next_after(self, instant: datetime) -> datetime | None:
        """The first firing after the instant."""
        if type(instant) is not datetime or instant.tzinfo is not UTC:
            instant = utc(instant)
        if self._is_utc:
            return self._after(instant)
        for begin, end, shift in self._settled.get(instant.year, ()):
            if instant < end:
                if instant >= begin:
                    wall = self._after(instant + shift)
                    if wall is None:
                        return None
                    firing = wall - shift
                    # A fold later than this span repeats only wall times later than `wall`, so
                    # the first pass of `wall` is the next firing.
                    return firing if firing < end else self._first_pass(wall, instant.year)
                break
        return self._across_jumps(clamp(instant))

    def _across_jumps(self, instant: datetime) -> datetime | None:
        span = self.zone.span_at(instant)
        wall = max(instant + span.shift, span.fresh - TICK)
        later = self._first_pass(self._after(wall), wall.year)
        if self.rule.fold is Fold.BOTH:
            repeated = self._second_pass_after(instant)
            if repeated is not None and (later is None or repeated < later):
                return repeated
        return later

    def _first_pass(self, wall: datetime | None, since: int) -> datetime | None:
        """The instant of a wall time; where gaps do not fire, that of the next wall time after the gap."""
        while wall is not None and wall.year <= since + self.table.years:
            for begin, end, shift in self._settled.get(wall.year, ()):
                if begin <= wall - shift < end:
                    return wall - shift
            placement = self.zone.place(wall)
            if placement is None:
                return None
            if not placement.in_gap or self.rule.gap is Gap.FIRE_AFTER:
                return placement.instant
            wall = self._after(placement.instant + self.zone.offset_at(placement.instant) - TICK)
        return None

    def _second_pass_after(self, instant: datetime) -> datetime | None:
        """The next firing in the second pass of a fold. No fold is longer than a day."""
        for span in self.zone.spans_from(instant):
            if span.start > instant + _DAY:
                break
            wall = self._after(max(instant + span.shift, span.wall_start - TICK))
            if wall is not None and wall < min(span.fresh, span.wall_end):
                return wall - span.shift
        return None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield every firing in (start, end], an hour at a time where the offset does not change."""
        end = utc(end)
        offsets = _offsets_in_hour(self.table.minutes, self.table.seconds)
        instant = self.next_after(start)
        while instant is not None and instant <= end:
            yield instant
            hour = self._whole_hour(instant, end) if len(offsets) > 1 else None
            if hour is not None:
                yield from map(hour.__add__, offsets[bisect_right(offsets, instant - hour) :])
                instant = max(instant, hour + offsets[-1])
            instant = self.next_after(instant)

    def _whole_hour(self, instant: datetime, end: datetime) -> datetime | None:
        """Start of the wall-clock hour of the instant, if neither a change of offset nor `end` cuts it."""
        span = self.zone.span_at(instant)
        wall = instant + span.shift
        hour = instant - timedelta(minutes=wall.minute, seconds=wall.second)
        undisturbed = hour + _HOUR <= min(span.settled_until, end)
        return hour if undisturbed and self.table.matches_hour(wall) else None


@lru_cache(maxsize=256)
def _offsets_in_hour(minutes: int, seconds: int) -> Sequence[timedelta]:
    return tuple(
        timedelta(minutes=minute, seconds=second)
        for minute in range(60)
        if minutes >> minute & 1
        for second in range(60)
        if seconds >> second & 1
    )
