"""A zone name in -> its spans of constant offset out, with the gap and fold rules of every dialect as data.

A span is a stretch of UTC time with one offset. Between two spans the wall clock jumps: forward
leaves a gap, back repeats a fold. All knowledge of daylight saving in this package is in here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from schedules.errors import UnknownZoneError
from schedules.instants import EARLIEST, LATEST
from schedules.text import clip

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}")
# Present as files on some machines, but not names of the IANA database.
_NOT_ZONES = frozenset({"localtime", "posixrules"})
_NOT_AREAS = ("posix/", "right/")
_MAX_LENGTH = 64
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
# Jumps are a day at most, so one farther from a year than this cannot touch its wall clock.
_MARGIN = 3 * _DAY


class Gap(Enum):
    """What happens to a wall time that the clock jumps over."""

    FIRE_AFTER = "fires at the first instant after the gap"
    SKIP = "does not fire"


class Fold(Enum):
    """What happens to a wall time that the clock shows twice."""

    FIRST = "fires in the first pass only"
    BOTH = "fires in both passes"


class Mark(Enum):
    """What the wall clock is doing at an instant, where that is out of the ordinary."""

    AFTER_GAP = "the clock has just jumped ahead"
    FIRST_SHOWING = "the clock will show this time again"
    SECOND_SHOWING = "the clock shows this time again"


class DstRule(NamedTuple):
    gap: Gap
    fold: Fold


CHRONEX_FIXED = DstRule(Gap.FIRE_AFTER, Fold.FIRST)
CHRONEX_INTERVAL = DstRule(Gap.FIRE_AFTER, Fold.BOTH)
POSIX = DstRule(Gap.SKIP, Fold.FIRST)


class Span(NamedTuple):
    """[start, end) in UTC with one offset; `fresh` is the first wall time no earlier span has shown.

    Inside [settled_from, settled_until) neither a gap nor a fold can touch the wall clock, so an
    instant and its wall time differ by `shift` and nothing else.
    """

    settled_from: datetime
    settled_until: datetime
    shift: timedelta
    start: datetime
    end: datetime
    fresh: datetime

    @property
    def wall_start(self) -> datetime:
        return self.start + self.shift

    @property
    def wall_end(self) -> datetime:
        return self.end + self.shift


Settled = tuple[datetime, datetime, timedelta]


class Placed(NamedTuple):
    """Where a wall time lies on the time line."""

    instant: datetime
    in_gap: bool


class Zone:
    """A time zone as a lazily filled table of spans per UTC year."""

    __slots__ = ("_years", "info", "is_utc", "name", "settled")

    def __init__(self, name: str, info: tzinfo) -> None:
        self.name = name
        self.info = info
        self.is_utc = name in {"UTC", "Etc/UTC"}
        self._years: dict[int, tuple[Span, ...]] = {}
        self.settled: dict[int, tuple[Settled, ...]] = {}

    def spans(self, year: int) -> tuple[Span, ...]:
        """The spans of one UTC year; none outside the supported years."""
        if not EARLIEST.year <= year <= LATEST.year:
            return ()
        # A race fills the entry twice with equal values, which is harmless.
        found = self._years.get(year)
        if found is None:
            chain, first, beyond = _chain_of_year(self.info, year)
            self.settled[year] = _settled(chain, first - _DAY, min(beyond + _DAY, LATEST))
            inside = (span for span in chain if span.end > first and span.start < beyond)
            found = self._years[year] = tuple(_cut(span, first, beyond) for span in inside)
        return found

    def spans_from(self, instant: datetime) -> Iterator[Span]:
        """Every span that ends after the instant, in order, to the end of the supported years."""
        for year in range(instant.year, LATEST.year + 1):
            for span in self.spans(year):
                if span.end > instant:
                    yield span

    def span_at(self, instant: datetime) -> Span:
        return next(self.spans_from(instant))

    def offset_at(self, instant: datetime) -> timedelta:
        return self.span_at(instant).shift

    def mark_at(self, instant: datetime) -> Mark | None:
        """None on ordinary days."""
        span = self.span_at(instant)
        if instant == span.start and span.wall_start > span.fresh:
            return Mark.AFTER_GAP
        if instant < span.settled_from:
            return Mark.SECOND_SHOWING
        return None if instant < span.settled_until else Mark.FIRST_SHOWING

    def place(self, wall: datetime) -> Placed | None:
        """The first instant that shows the wall time, or the end of the gap it falls into."""
        for span in self.spans_from(max(wall - _DAY, EARLIEST)):
            if wall < span.wall_end:
                in_gap = wall < span.wall_start
                return Placed(span.start if in_gap else wall - span.shift, in_gap)
        return None

    def last_showing(self, wall: datetime) -> datetime | None:
        """The last instant that shows the wall time, or the end of the gap it falls into."""
        placed = self.place(wall)
        if placed is None or placed.in_gap:
            return placed and placed.instant
        return wall.replace(tzinfo=self.info, fold=1).astimezone(UTC)


def _offset(info: tzinfo, instant: datetime) -> timedelta:
    return instant.astimezone(info).utcoffset() or timedelta()


def _chain_of_year(info: tzinfo, year: int) -> tuple[list[Span], datetime, datetime]:
    """Offsets sampled daily, each change narrowed down to its second, with a margin at both ends."""
    first, beyond = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    starts = [first - _MARGIN]
    shifts = [_offset(info, starts[0])]
    for change, shift in _changes(info, starts[0], beyond + _MARGIN):
        starts.append(change)
        shifts.append(shift)
    return _chain(starts, shifts, beyond + _MARGIN), first, beyond


def _settled(chain: list[Span], low: datetime, high: datetime) -> tuple[Settled, ...]:
    """Settled stretches as plain tuples, which is what the hot path can afford to unpack.

    They overlap into the neighbouring years by a day: midnight of New Year's Day is the day before
    in UTC for half of the world.
    """
    return tuple(
        (max(span.settled_from, low), min(span.settled_until, high), span.shift)
        for span in chain
        if max(span.settled_from, low) < min(span.settled_until, high)
    )


def _changes(info: tzinfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, timedelta]]:
    before, shift = start, _offset(info, start)
    while before < end:
        after = before + _DAY
        changed = _offset(info, after)
        if changed != shift:
            after = _first_second_without(info, shift, before, after)
            shift = _offset(info, after)
            yield after, shift
        before = after


def _first_second_without(info: tzinfo, shift: timedelta, low: datetime, high: datetime) -> datetime:
    while high - low > _SECOND:
        middle = low + (high - low) // 2 // _SECOND * _SECOND
        if _offset(info, middle) == shift:
            low = middle
        else:
            high = middle
    return high


def _chain(starts: list[datetime], shifts: list[timedelta], end: datetime) -> list[Span]:
    """Only neighbours interact: jumps of the database are days apart and a day at most."""
    ends, following = [*starts[1:], end], [*shifts[1:], shifts[-1]]
    fresh = starts[0] + shifts[0]
    spans: list[Span] = []
    for start, stop, shift, next_shift in zip(starts, ends, shifts, following, strict=True):
        until = min(stop, stop + next_shift - shift)
        spans.append(Span(max(start, fresh - shift), until, shift, start, stop, fresh))
        fresh = stop + shift
    return spans


def _cut(span: Span, first: datetime, beyond: datetime) -> Span:
    """The part of a span inside one year; a year's end is a jump by nothing."""
    fresh = max(span.fresh, first + span.shift) if span.start < first else span.fresh
    start, end = max(span.start, first), min(span.end, beyond)
    return Span(max(span.settled_from, first), min(span.settled_until, beyond), span.shift, start, end, fresh)


@lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone:
    """The zone of an IANA name; directories, files and paths are not names."""
    known = len(name) <= _MAX_LENGTH and _NAME.fullmatch(name) and name not in _NOT_ZONES
    if known and not name.startswith(_NOT_AREAS):
        try:
            return Zone(name, ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # a directory, a data file or nothing at all: one answer for all of them
    raise UnknownZoneError(f"timezone: unknown timezone '{clip(name)}'", field="timezone", value=clip(name))


@lru_cache(maxsize=256)
def zone_of(zone: str | tzinfo) -> Zone:
    """A zone by name, or wrapped around any other tzinfo."""
    if isinstance(zone, str):
        return find_zone(zone)
    key = getattr(zone, "key", None)
    return Zone(key if isinstance(key, str) else str(zone), zone)


UTC_ZONE = Zone("UTC", UTC)
