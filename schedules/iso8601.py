"""The `iso8601:` kind: repeating intervals such as `R5/2026-01-31T00:00:00Z/P1M`.

Occurrence k is start + k intervals, always counted from the start: first years and months, clamped
to the month's length, then weeks and days on the local calendar, then elapsed time.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from datetime import timezone as fixed_offset
from functools import lru_cache
from typing import NamedTuple

from punctual.schedules.errors import Iso8601Error
from punctual.schedules.text import BLANKS, clip, text_problem
from punctual.schedules.utc import LATEST, clamp, iterate, shift_instant, utc
from punctual.schedules.wall_clock.moments import Moment, parse_moment
from punctual.schedules.wall_clock.zones import Zone, zone_of

_COUNT = re.compile(r"R([0-9]{0,9})")
_WITHOUT_SECONDS = re.compile(r"(.*T\d\d:\d\d)((?:Z|[+-]\d\d:\d\d)?)", re.ASCII)
_DURATION = re.compile(
    r"P(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?"
    r"(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,6}))?S)?)?",
    re.ASCII,
)
_MEAN_MONTH = timedelta(days=146_097) / 4800


@dataclass(frozen=True, slots=True)
class Interval:
    """Months, days and elapsed time, applied in that order."""

    months: int
    days: int
    elapsed: timedelta

    @property
    def mean(self) -> timedelta:
        return self.months * _MEAN_MONTH + timedelta(days=self.days) + self.elapsed


@dataclass(frozen=True, slots=True)
class Repeating:
    """A start, an interval and how many occurrences there are (None: endless)."""

    text: str
    start: datetime
    interval: Interval
    count: int | None
    timezone: str
    zone: Zone = field(compare=False, repr=False)

    def next_after(self, instant: datetime, /) -> datetime | None:
        """The first occurrence after the instant."""
        instant = clamp(utc(instant))
        # Months differ from their mean by days and zones shift by hours: less than two intervals
        # wherever an interval has months or days, and not at all where it has neither.
        index = max(0, (instant - self.start) // self.interval.mean - 2)
        if self.count is not None:
            index = min(index, self.count)
        while not self._is_later(index, instant):
            index += 1
        return self.occurrence(index)

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        """Every occurrence in (start, end]."""
        return iterate(self.next_after, start, end)

    def occurrence(self, index: int) -> datetime | None:
        """The occurrence with that index, the start being 0; None past the count or the calendar."""
        if self.count is not None and index >= self.count:
            return None
        if not self.interval.months and not self.interval.days:
            return shift_instant(self.start, index * self.interval.elapsed)
        wall = _plus_months(self.start + self.zone.offset_at(self.start), index * self.interval.months)
        moved = wall and shift_instant(wall, timedelta(days=index * self.interval.days))
        placed = moved and self.zone.place(moved)
        return placed and shift_instant(placed.instant, index * self.interval.elapsed)

    def _is_later(self, index: int, instant: datetime) -> bool:
        occurrence = self.occurrence(index)
        return occurrence is None or occurrence > instant

    def __str__(self) -> str:
        return f"iso8601:{self.text}"


def parse(
    text: str,
    timezone: str | tzinfo | None = None,
    *,
    reference: datetime | None = None,  # noqa: ARG001 -- every kind is called alike
    trigger_id: str = "",  # noqa: ARG001
) -> Repeating:
    """`R/start/duration`, `Rn/start/duration` or `start/duration`."""
    if problem := text_problem(text):
        raise _refusal("interval", clip(text), problem, 0)
    return _parse(text, None if timezone is None else zone_of(timezone))


class _Part(NamedTuple):
    text: str
    position: int


@lru_cache(maxsize=4096)
def _parse(text: str, zone: Zone | None) -> Repeating:
    parts = _split(text)
    if len(parts) not in {2, 3}:
        raise _refusal("interval", text, "expected R/start/duration or start/duration", parts[0].position)
    *repeat, begin, length = parts
    count = _count(repeat[0]) if repeat else None
    moment = _moment(begin)
    # The caller's zone decides what a day is; without one, the start's own offset does.
    zone = zone or zone_of(fixed_offset(moment.offset or timedelta()))
    return Repeating(text, moment.starts(zone), _interval(length), count, zone.name, zone)


def _split(text: str) -> list[_Part]:
    position = len(text) - len(text.lstrip(BLANKS))
    parts: list[_Part] = []
    for part in text.strip(BLANKS).split("/"):
        parts.append(_Part(part, position))
        position += len(part) + 1
    return parts


def _count(part: _Part) -> int | None:
    match = _COUNT.fullmatch(part.text)
    if not match or (match[1] and not int(match[1])):
        raise _refusal("repetitions", part.text, "expected R or R and a positive number", part.position)
    return int(match[1]) if match[1] else None


def _moment(part: _Part) -> Moment:
    short = _WITHOUT_SECONDS.fullmatch(part.text)
    moment = parse_moment(f"{short[1]}:00{short[2]}" if short else part.text)
    if moment is None:
        raise _refusal("start", part.text, "expected a date or datetime", part.position)
    return moment


def _interval(part: _Part) -> Interval:
    match = _DURATION.fullmatch(part.text)
    if not match:
        raise _refusal("duration", part.text, "expected a duration such as P1M or PT15M", part.position)
    years, months, weeks, days, hours, minutes, seconds = (int(digits or 0) for digits in match.groups()[:7])
    micros = int((match[8] or "").ljust(6, "0"))
    elapsed = timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
    interval = Interval(years * 12 + months, weeks * 7 + days, elapsed)
    if not interval.mean:
        raise _refusal("duration", part.text, "must be positive", part.position)
    return interval


def _plus_months(wall: datetime, months: int) -> datetime | None:
    """Add months, keeping the day or using the last day of a shorter month."""
    year, month = divmod(wall.year * 12 + wall.month - 1 + months, 12)
    if year > LATEST.year:
        return None
    day = min(wall.day, monthrange(year, month + 1)[1])
    return wall.replace(year=year, month=month + 1, day=day)


def _refusal(part: str, value: str, reason: str, position: int) -> Iso8601Error:
    message = f"{part}: {reason}, got '{clip(value)}'"
    return Iso8601Error(message, field=part, value=clip(value), position=position)
