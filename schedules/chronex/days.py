"""The text of a day field in -> its day rule out, with the marks `L`, `W` and `#` that stand alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from schedules.chronex.fields import MONTH_DAY, WEEK_DAY, parse_field
from schedules.errors import Problem
from schedules.months import MonthDays, WeekDays

_LAST_BUT = re.compile(r"L-([0-9]{1,3})")
_NEAREST = re.compile(r"([0-9]{1,3})W")
_LAST_WEEKDAY = re.compile(r"([0-9]|[A-Za-z]{3})L")
_NTH_WEEKDAY = re.compile(r"([0-9]|[A-Za-z]{3})#([0-9])")
_MOST_WEEKS = 5
_LONGEST_BACK = 30  # L-30 is the first of a long month; beyond that no month has a day


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
        # The weekday nearest to the 31st, which every month clamps to its own last day.
        return MonthDayField(MonthDays("weekday", 31), text)
    if found := _LAST_BUT.fullmatch(text):
        return _bounded(MonthDays("last", int(found[1])), f"L-{int(found[1])}", text, _LONGEST_BACK)
    if found := _NEAREST.fullmatch(text):
        return _bounded(MonthDays("weekday", int(found[1])), f"{int(found[1])}W", text, MONTH_DAY.high)
    plain = parse_field(MONTH_DAY, text)
    return MonthDayField(MonthDays("set", plain.mask), plain.canonical, plain.problems)


def _bounded(rule: MonthDays, canonical: str, text: str, highest: int) -> MonthDayField:
    fits = 1 <= rule.value <= highest
    return MonthDayField(rule, canonical, () if fits else (MONTH_DAY.refuse(text, 0),))


@lru_cache(maxsize=4096)
def parse_week_days(text: str) -> WeekDayField:
    if text == "*":
        return WeekDayField(WeekDays("any"), "*")
    if found := _LAST_WEEKDAY.fullmatch(text):
        return _marked(found[1], "L", 0, text)
    if found := _NTH_WEEKDAY.fullmatch(text):
        return _marked(found[1], f"#{found[2]}", int(found[2]), text)
    plain = parse_field(WEEK_DAY, text)
    return WeekDayField(WeekDays("set", plain.mask), plain.canonical, plain.problems)


def _marked(day: str, mark: str, nth: int, text: str) -> WeekDayField:
    number = WEEK_DAY.number(day)
    if number is None or (mark != "L" and not 1 <= nth <= _MOST_WEEKS):
        return WeekDayField(WeekDays("any"), text, (WEEK_DAY.refuse(text, 0),))
    weekday = WEEK_DAY.fold(number)
    rule = WeekDays("last", weekday) if mark == "L" else WeekDays("nth", weekday, nth)
    return WeekDayField(rule, f"{weekday}{mark}")
