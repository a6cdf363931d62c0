"""Parse the day fields of a Chronex text, with the marks `L`, `W` and `#`, which stand alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from punctual.schedules.chronex.numeric_fields import MONTH_DAY, WEEK_DAY, parse_field
from punctual.schedules.errors import Problem
from punctual.schedules.wall_clock.months import MonthDays, WeekDays

_LAST_BUT = re.compile(r"L-([0-9]{1,3})")
_NEAREST = re.compile(r"([0-9]{1,3})W")
_LAST_WEEKDAY = re.compile(r"([0-9]|[A-Za-z]{3})L")
_NTH_WEEKDAY = re.compile(r"([0-9]|[A-Za-z]{3})#([0-9])")
_MAX_WEEKS = 5
_MAX_DAYS_BACK = 30  # L-30 is the first day of a 31-day month


@dataclass(frozen=True, slots=True)
class MonthDayField:
    rule: MonthDays
    canonical: str
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class WeekDayField:
    rule: WeekDays
    canonical: str
    problems: tuple[Problem, ...] = ()


@lru_cache(maxsize=4096)
def parse_month_days(text: str) -> MonthDayField:
    if text == "*":
        return MonthDayField(MonthDays("any"), "*")
    if text == "L":
        return MonthDayField(MonthDays("last"), text)
    if text == "LW":
        # The weekday nearest to the 31st; shorter months use their last day.
        return MonthDayField(MonthDays("weekday", 31), text)
    if match := _LAST_BUT.fullmatch(text):
        return _month_day_field(MonthDays("last", int(match[1])), f"L-{int(match[1])}", text, _MAX_DAYS_BACK)
    if match := _NEAREST.fullmatch(text):
        return _month_day_field(
            MonthDays("weekday", int(match[1])), f"{int(match[1])}W", text, MONTH_DAY.high
        )
    plain = parse_field(MONTH_DAY, text)
    return MonthDayField(MonthDays("set", plain.mask), plain.canonical, plain.problems)


def _month_day_field(rule: MonthDays, canonical: str, text: str, highest: int) -> MonthDayField:
    fits = 1 <= rule.value <= highest
    return MonthDayField(rule, canonical, () if fits else (MONTH_DAY.refuse(text, 0),))


@lru_cache(maxsize=4096)
def parse_week_days(text: str) -> WeekDayField:
    if text == "*":
        return WeekDayField(WeekDays("any"), "*")
    if match := _LAST_WEEKDAY.fullmatch(text):
        return _week_day_field(match[1], "L", 0, text)
    if match := _NTH_WEEKDAY.fullmatch(text):
        return _week_day_field(match[1], f"#{match[2]}", int(match[2]), text)
    plain = parse_field(WEEK_DAY, text)
    return WeekDayField(WeekDays("set", plain.mask), plain.canonical, plain.problems)


def _week_day_field(day: str, mark: str, nth: int, text: str) -> WeekDayField:
    number = WEEK_DAY.number(day)
    if number is None or (mark != "L" and not 1 <= nth <= _MAX_WEEKS):
        return WeekDayField(WeekDays("any"), text, (WEEK_DAY.refuse(text, 0),))
    weekday = WEEK_DAY.fold(number)
    rule = WeekDays("last", weekday) if mark == "L" else WeekDays("nth", weekday, nth)
    return WeekDayField(rule, f"{weekday}{mark}")
