"""A brute-force oracle: test every minute (or second) against a cron pattern.

It shares no code with the package under test: fields are plain sets, the offset is looked up for every
single minute, and repeated or skipped wall times are detected by comparing neighbours.
"""

from __future__ import annotations

import sys
from calendar import monthrange
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from types import FrameType
from typing import TypeVar

from punctual.schedules.errors import ScheduleError

T = TypeVar("T")
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)

DayTest = Callable[[date], bool]


@dataclass(frozen=True)
class Pattern:
    """A cron text and its meaning as plain sets."""

    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    day: DayTest
    is_interval: bool

    def matches(self, wall: datetime) -> bool:
        return (
            wall.second in self.seconds
            and wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and self.day(wall.date())
        )


def offset(zone: tzinfo, instant: datetime) -> timedelta:
    delta = instant.astimezone(zone).utcoffset()
    assert delta is not None
    return delta


def wall_at(zone: tzinfo, instant: datetime) -> datetime:
    return (instant + offset(zone, instant)).replace(tzinfo=None)


def jumps(zone: tzinfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every second at which the offset differs from the second before."""
    before = start
    while before < end:
        after = before + DAY / 2
        if offset(zone, before) != offset(zone, after):
            low, high = before, after
            while high - low > SECOND:
                middle = low + timedelta(seconds=(high - low) // SECOND // 2)
                low, high = (middle, high) if offset(zone, middle) == offset(zone, low) else (low, middle)
            yield high
        before = after


def fires(  # noqa: PLR0913 -- one knob per rule that the dialects differ in
    pattern: Pattern,
    zone: tzinfo,
    start: datetime,
    end: datetime,
    *,
    step: timedelta = MINUTE,
    skips_gaps: bool = False,
    memory: timedelta = DAY,
) -> list[datetime]:
    """Every firing in (start, end], computed one wall-clock unit at a time.

    The walk starts `memory` early, so that wall times shown before the window count as shown.
    """
    seen: set[datetime] = set()
    firings: set[datetime] = set()
    instant = start - memory
    edges = set(jumps(zone, instant - DAY, end + DAY))
    clock = _ticks(zone, instant, end, edges, step)
    for moment, is_edge in clock:
        wall = wall_at(zone, moment)
        if is_edge and not skips_gaps:
            before = wall_at(zone, moment - SECOND) + SECOND
            if any(pattern.matches(lost) for lost in _between(before, wall, step) if lost not in seen):
                firings.add(moment)
        if pattern.matches(wall) and (pattern.is_interval or wall not in seen):
            firings.add(moment)
        seen.add(wall)
    return sorted(moment for moment in firings if start < moment <= end)


def _ticks(
    zone: tzinfo, start: datetime, end: datetime, edges: set[datetime], step: timedelta
) -> Iterator[tuple[datetime, bool]]:
    """Instants at which the wall clock shows a whole unit, and the edges between offsets."""
    moment = start
    while moment <= end:
        following = min((edge for edge in edges if edge > moment), default=end + SECOND)
        while moment < following and moment <= end:
            yield moment, moment in edges
            wall = wall_at(zone, moment)
            moment += step - timedelta(seconds=wall.second % step.total_seconds())
        moment = min(moment, following) if moment > following else moment


def _between(low: datetime, high: datetime, step: timedelta) -> Iterator[datetime]:
    unit = int(step.total_seconds())
    moment = low + timedelta(seconds=-low.second % unit)
    while moment < high:
        yield moment
        moment += step


def in_month(test: Callable[[int, int, int], bool]) -> DayTest:
    """A test of (day, weekday of the first with 0 = Sunday, length) as a test of dates."""

    def check(day: date) -> bool:
        first, length = monthrange(day.year, day.month)
        return test(day.day, (first + 1) % 7, length)

    return check


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


@contextmanager
def counted_calls(*functions: Callable[..., object]) -> Iterator[list[int]]:
    """Count the calls of these functions: a measure of work that does not depend on the machine."""
    codes, count = {function.__code__ for function in functions}, [0]

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        count[0] += event == "call" and frame.f_code in codes

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def outcome(call: Callable[[str], T], text: str) -> T | ScheduleError:
    """The result of a call or the `ScheduleError` it raises; any other exception fails the test."""
    try:
        return call(text)
    except ScheduleError as error:
        return error
