"""Compute which days of a month match a day rule, as bit masks for the 28 shapes a month can have."""

from __future__ import annotations

from calendar import monthrange
from functools import lru_cache
from typing import Literal, NamedTuple

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
SATURDAY, SUNDAY = 6, 0
_CYCLE_YEARS = 400  # the Gregorian calendar repeats exactly after 400 years


class MonthDays(NamedTuple):
    """any | set (bit mask) | last (days before the last one) | weekday (nearest to that day)."""

    kind: Literal["any", "set", "last", "weekday"]
    value: int = 0


class WeekDays(NamedTuple):
    """any | set (bit mask, 0 = Sunday) | last (weekday) | nth (weekday, which one)."""

    kind: Literal["any", "set", "last", "nth"]
    value: int = 0
    nth: int = 0


def _shape_table() -> bytes:
    """Shape numbers by year % 400 * 12 + month; shape = first weekday (0 = Sunday) * 4 + length - 28."""
    table = bytearray(1)
    for year in range(2000, 2000 + _CYCLE_YEARS):
        for month in range(1, 13):
            first, length = monthrange(year, month)
            table.append((first + 1) % 7 * 4 + length - 28)
    return bytes(table)


SHAPES = _shape_table()


@lru_cache(maxsize=4096)
def day_masks(month_days: MonthDays, week_days: WeekDays) -> tuple[int, ...]:
    """Bit d of entry s: day d of a month of shape s matches. If both rules restrict, either is enough."""
    return tuple(_mask(month_days, week_days, shape // 4, shape % 4 + 28) for shape in range(28))


def _mask(month_days: MonthDays, week_days: WeekDays, first: int, length: int) -> int:
    by_month = _by_month(month_days, first, length)
    by_week = _by_week(week_days, first, length)
    if month_days.kind == "any":
        return by_week
    return by_month if week_days.kind == "any" else by_month | by_week


def _by_month(rule: MonthDays, first: int, length: int) -> int:
    if rule.kind == "set":
        return rule.value & _all_days(length)
    if rule.kind == "last":
        return 1 << length - rule.value & _all_days(length) if rule.value < length else 0
    if rule.kind == "weekday":
        return 1 << _nearest_weekday(min(rule.value, length), first, length)
    return _all_days(length)


def _by_week(rule: WeekDays, first: int, length: int) -> int:
    if rule.kind == "any":
        return _all_days(length)
    if rule.kind == "set":
        return sum(1 << day for day in range(1, length + 1) if rule.value >> (first + day - 1) % 7 & 1)
    earliest = 1 + (rule.value - first) % 7
    if rule.kind == "last":
        return 1 << earliest + (length - earliest) // 7 * 7
    day = earliest + (rule.nth - 1) * 7
    return 1 << day if day <= length else 0


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """The day from Monday to Friday nearest to the day, within the same month."""
    weekday = (first + day - 1) % 7
    if weekday == SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _all_days(length: int) -> int:
    return (1 << length + 1) - 2
