"""Find the next or previous wall time that matches a cron pattern.

Wall times are datetimes tagged UTC: comparing and constructing them stays in C, and no zone is
involved. `recurrence` converts them to instants.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from punctual.schedules.wall_clock.months import SHAPES, MonthDays, WeekDays, day_masks

_NONE = 255
_EVERY_MONTH = 0b1_1111_1111_1110


@lru_cache(maxsize=4096)
def _successors(mask: int, size: int) -> bytes:
    """Entry v: the smallest member of the mask greater than v, or 255."""
    table = bytearray(size)
    following = _NONE
    for value in range(size - 1, -1, -1):
        table[value] = following
        if mask >> value & 1:
            following = value
    return bytes(table)


def lowest(mask: int) -> int:
    """Index of the lowest set bit."""
    return (mask & -mask).bit_length() - 1


def highest_below(mask: int, value: int) -> int:
    """Largest member of the mask smaller than value, or -1."""
    return (mask & (1 << value) - 1).bit_length() - 1


class Pattern(NamedTuple):
    """Bit v of a mask: the field may be v. Days are rules, because months differ in length."""

    seconds: int
    minutes: int
    hours: int
    month_days: MonthDays
    months: int
    week_days: WeekDays


@lru_cache(maxsize=4096)
def timetable(pattern: Pattern, years: int) -> Timetable:
    """The timetable of a pattern, shared by all jobs with the same pattern."""
    return Timetable(pattern, years=years)


class Timetable:
    """An immutable pattern of seconds, minutes, hours, days and months."""

    __slots__ = (
        "_after_hour",
        "_after_minute",
        "_after_month",
        "_after_second",
        "_days",
        "_every_day",
        "_first_hour",
        "_first_minute",
        "_first_month",
        "_first_second",
        "_sub_minute",
        "hours",
        "minutes",
        "month_days",
        "months",
        "seconds",
        "week_days",
        "years",
    )

    def __init__(self, pattern: Pattern, *, years: int) -> None:
        seconds, minutes, hours, month_days, months, week_days = pattern
        self.seconds = seconds
        self.minutes = minutes
        self.hours = hours
        self.month_days = month_days
        self.months = months
        self.week_days = week_days
        self.years = years
        self._sub_minute = seconds != 1
        self._after_second = _successors(seconds, 60)
        self._after_minute = _successors(minutes, 60)
        self._after_hour = _successors(hours, 24)
        self._after_month = _successors(months, 13)
        self._days = day_masks(month_days, week_days)
        self._first_hour = lowest(hours)
        self._first_minute = lowest(minutes)
        self._first_second = lowest(seconds)
        self._every_day = month_days.kind == week_days.kind == "any" and months == _EVERY_MONTH
        self._first_month = lowest(months)

    def after(self, wall: datetime) -> datetime | None:
        """The first match after the wall time, or None if there is none within the search limit."""
        year, month, day = wall.year, wall.month, wall.day
        if self._every_day or self.matches_day(wall):
            # Inlined for speed: nearly every call takes this path.
            hour = wall.hour
            if self.hours >> hour & 1:
                minute = wall.minute
                if self._sub_minute and self.minutes >> minute & 1:
                    second = self._after_second[wall.second]
                    if second < _NONE:
                        return datetime(year, month, day, hour, minute, second, 0, UTC)
                minute = self._after_minute[minute]
                if minute < _NONE:
                    return datetime(year, month, day, hour, minute, self._first_second, 0, UTC)
            hour = self._after_hour[hour]
            if hour < _NONE:
                minute = self._first_minute
                return datetime(year, month, day, hour, minute, self._first_second, 0, UTC)
        return self._on_a_later_day(year, month, day)

    def _on_a_later_day(self, year: int, month: int, day: int) -> datetime | None:
        if self.months >> month & 1:
            days = self._days[SHAPES[year % 400 * 12 + month]] >> day + 1
            if days:
                return self._at(year, month, day + (days & -days).bit_length())
        return self._in_a_later_month(year, month)

    def _in_a_later_month(self, year: int, month: int) -> datetime | None:
        last_year = min(year + self.years, 9999)
        while True:
            month = self._after_month[month]
            if month == _NONE:
                year += 1
                month = self._first_month
                if year > last_year:
                    return None
            days = self._days[SHAPES[year % 400 * 12 + month]]
            if days:
                return self._at(year, month, lowest(days))

    def _at(self, year: int, month: int, day: int) -> datetime:
        return datetime(year, month, day, self._first_hour, self._first_minute, self._first_second, 0, UTC)

    def at_or_before(self, wall: datetime) -> datetime | None:
        """The last match at or before the wall time, or None if there is none within the search limit."""
        year, month, day = wall.year, wall.month, wall.day
        if self.matches_day(wall):
            time_of_day = self._time_up_to(wall.hour, wall.minute, wall.second)
            if time_of_day is not None:
                return datetime(year, month, day, *time_of_day, tzinfo=UTC)
        first_year = max(year - self.years, 1)
        while year >= first_year:
            if self.months >> month & 1:
                day = highest_below(self._days[SHAPES[year % 400 * 12 + month]], day)
                if day > 0:
                    return datetime(year, month, day, *self._last, tzinfo=UTC)
            month, day = highest_below(self.months, month), 32
            if month < 1:
                year, month = year - 1, highest_below(self.months, 13)
        return None

    @property
    def _last(self) -> tuple[int, int, int]:
        return (
            highest_below(self.hours, 24),
            highest_below(self.minutes, 60),
            highest_below(self.seconds, 60),
        )

    def _time_up_to(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The last time of day in the pattern at or before the given one."""
        _, last_minute, last_second = self._last
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                earlier = highest_below(self.seconds, second + 1)
                if earlier >= 0:
                    return hour, minute, earlier
            earlier = highest_below(self.minutes, minute)
            if earlier >= 0:
                return hour, earlier, last_second
        earlier = highest_below(self.hours, hour)
        return (earlier, last_minute, last_second) if earlier >= 0 else None

    def matches_day(self, wall: datetime) -> bool:
        """Whether the pattern fires on the calendar day of the wall time."""
        month = wall.month
        days = self._days[SHAPES[wall.year % 400 * 12 + month]]
        return bool(self.months >> month & days >> wall.day & 1)

    def matches_hour(self, wall: datetime) -> bool:
        """Whether the pattern fires in the hour of the wall time."""
        return bool(self.hours >> wall.hour & 1) and self.matches_day(wall)

    def never_fires(self) -> bool:
        """Whether no month of the 400-year calendar cycle has a matching day."""
        return not any(
            self._days[SHAPES[index]]
            for index in range(1, len(SHAPES))
            if self.months >> ((index - 1) % 12 + 1) & 1
        )
