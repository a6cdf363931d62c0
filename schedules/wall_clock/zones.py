"""Time zones as spans of constant offset, and the gap and fold rules of every kind of schedule.

A span is a period of UTC time with one offset. Between two spans the wall clock jumps: forward leaves a
gap, back makes a fold. Everything this package knows about daylight saving is in this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from punctual.schedules.errors import UnknownZoneError
from punctual.schedules.text import clip
from punctual.schedules.utc import EARLIEST, LATEST

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}")
# Present as files on some machines, but not names of the IANA database.
_NOT_ZONES = frozenset({"localtime", "posixrules"})
_NOT_AREAS = ("posix/", "right/")
_MAX_LENGTH = 64
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
# A jump is at most a day, so a jump farther from a year than this cannot affect its wall clock.
_MARGIN = 3 * _DAY


class Gap(Enum):
    """What happens to a wall time in a gap."""

    FIRE_AFTER = "fires at the first instant after the gap"
    SKIP = "does not fire"


class Fold(Enum):
    """What happens to a wall time in a fold."""

    FIRST = "fires in the first pass only"
    BOTH = "fires in both passes"


class Mark(Enum):
    """How an instant relates to a change of offset, if it is near one."""

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
    """[start, end) in UTC with one offset; `fresh` is the first wall time that no earlier span has shown.

    [settled_from, settled_until) contains neither a gap nor a fold: there, wall time = instant + shift.
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


SettledPeriod = tuple[datetime, datetime, timedelta]


class Placement(NamedTuple):
    """The instant of a wall time; `in_gap` if no clock ever shows it."""

    instant: datetime
    in_gap: bool


class Zone:
    """A time zone as a table of spans per UTC year, filled on demand."""

    __slots__ = ("_years", "info", "is_utc", "name", "settled")

    def __init__(self, name: str, info: tzinfo) -> None:
        self.name = name
        self.info = info
        self.is_utc = name in {"UTC", "Etc/UTC"}
        self._years: dict[int, tuple[Span, ...]] = {}
        self.settled: dict[int, tuple[SettledPeriod, ...]] = {}

    def spans(self, year: int) -> tuple[Span, ...]:
        """The spans of one UTC year; empty outside the supported years."""
        if not EARLIEST.year <= year <= LATEST.year:
            return ()
        # Two threads may both fill the entry; they write equal values.
        spans = self._years.get(year)
        if spans is None:
            chain, first, beyond = _chain_of_year(self.info, year)
            self.settled[year] = _settled_periods(chain, first - _DAY, min(beyond + _DAY, LATEST))
            inside = (span for span in chain if span.end > first and span.start < beyond)
            spans = self._years[year] = tuple(_cut(span, first, beyond) for span in inside)
        return spans

    def spans_from(self, instant: datetime) -> Iterator[Span]:
        """Yield every span that ends after the instant, in order."""
        for year in range(instant.year, LATEST.year + 1):
            for span in self.spans(year):
                if span.end > instant:
                    yield span

    def span_at(self, instant: datetime) -> Span:
        return next(self.spans_from(instant))

    def offset_at(self, instant: datetime) -> timedelta:
        return self.span_at(instant).shift

    def mark_at(self, instant: datetime) -> Mark | None:
        """The mark of an instant; None if it is not near a change of offset."""
        span = self.span_at(instant)
        if instant == span.start and span.wall_start > span.fresh:
            return Mark.AFTER_GAP
        if instant < span.settled_from:
            return Mark.SECOND_SHOWING
        return None if instant < span.settled_until else Mark.FIRST_SHOWING

    def place(self, wall: datetime) -> Placement | None:
        """The first instant that shows the wall time, or the end of the gap it is in."""
        for span in self.spans_from(wall - _DAY if wall > EARLIEST + _DAY else EARLIEST):
            if wall < span.wall_end:
                in_gap = wall < span.wall_start
                return Placement(span.start if in_gap else wall - span.shift, in_gap)
        return None

    def last_showing(self, wall: datetime) -> datetime | None:
        """The last instant that shows the wall time, or the end of the gap it is in."""
        placement = self.place(wall)
        if placement is None or placement.in_gap:
            return placement and placement.instant
        return wall.replace(tzinfo=self.info, fold=1).astimezone(UTC)


def _offset(info: tzinfo, instant: datetime) -> timedelta:
    return instant.astimezone(info).utcoffset() or timedelta()


def _chain_of_year(info: tzinfo, year: int) -> tuple[list[Span], datetime, datetime]:
    """Sample offsets daily and find each change to the second, with a margin at both ends of the year."""
    first, beyond = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    starts = [first - _MARGIN]
    shifts = [_offset(info, starts[0])]
    for change, shift in _changes(info, starts[0], beyond + _MARGIN):
        starts.append(change)
        shifts.append(shift)
    return _chain(starts, shifts, beyond + _MARGIN), first, beyond


def _settled_periods(chain: list[Span], low: datetime, high: datetime) -> tuple[SettledPeriod, ...]:
    """Settled periods as plain tuples, which are the fastest to unpack in `Recurrence.next_after`.

    They reach a day into the neighbouring years: local New Year is still the old year in UTC, or already
    the new one, depending on the zone.
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
    """Build spans from changes. Only neighbours interact: jumps are days apart and at most a day long."""
    ends, following = [*starts[1:], end], [*shifts[1:], shifts[-1]]
    fresh = starts[0] + shifts[0]
    spans: list[Span] = []
    for start, stop, shift, next_shift in zip(starts, ends, shifts, following, strict=True):
        until = min(stop, stop + next_shift - shift)
        spans.append(Span(max(start, fresh - shift), until, shift, start, stop, fresh))
        fresh = stop + shift
    return spans


def _cut(span: Span, first: datetime, beyond: datetime) -> Span:
    """Cut a span to one year; the end of a year counts as a jump of zero length."""
    fresh = max(span.fresh, first + span.shift) if span.start < first else span.fresh
    start, end = max(span.start, first), min(span.end, beyond)
    return Span(max(span.settled_from, first), min(span.settled_until, beyond), span.shift, start, end, fresh)


@lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone:
    """Find a zone by its IANA name; `UnknownZoneError` for anything else, including files of the database."""
    is_name = len(name) <= _MAX_LENGTH and _NAME.fullmatch(name) and name not in _NOT_ZONES
    if is_name and not name.startswith(_NOT_AREAS):
        try:
            return Zone(name, ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # a directory, a data file or no file: all of them are unknown names
    raise UnknownZoneError(f"timezone: unknown timezone '{clip(name)}'", field="timezone", value=clip(name))


def zone_of(zone: str | tzinfo) -> Zone:
    """Find a zone by name, or wrap a tzinfo; `UnknownZoneError` for any other object."""
    if isinstance(zone, str):
        return find_zone(zone)
    try:
        return _wrap(zone)
    except Exception:  # noqa: BLE001 -- a tzinfo is code of the caller; those of dateutil cannot be hashed
        value = clip(zone)
        message = f"timezone: expected an IANA name or a zoneinfo.ZoneInfo, got {value}"
        raise UnknownZoneError(message, field="timezone", value=value) from None


@lru_cache(maxsize=256)
def _wrap(zone: tzinfo) -> Zone:
    if not isinstance(zone, ZoneInfo):
        # pytz attaches an outdated offset to wall times; its zones are named after those of the database.
        name = getattr(zone, "zone", None)
        if isinstance(name, str):
            return find_zone(name)
    _offset(zone, EARLIEST)  # raises if it cannot tell any
    return Zone(getattr(zone, "key", None) or str(zone), zone)


UTC_ZONE = Zone("UTC", UTC)
