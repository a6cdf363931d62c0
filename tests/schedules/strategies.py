"""Random cron fields with their meaning, zones and instants near jumps of the clock."""

from __future__ import annotations

import os
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import settings
from hypothesis import strategies as st

from tests.schedules.oracle import DayTest, Pattern, jumps

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
# No deadline per example: a busy machine must not fail a correct result.
prop = settings(deadline=None, max_examples=3000 if THOROUGH else 100)
quick = settings(deadline=None, max_examples=1000 if THOROUGH else 50)

ZONES = sorted(available_timezones() - {"localtime"})
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

Element = tuple[str, frozenset[int], bool]


@st.composite
def elements(draw: st.DrawFn, low: int, high: int, names: list[str]) -> Element:
    """A list element: its text, its values and whether it makes the pattern an interval."""

    def say(value: int) -> str:
        use_name = names and value - low < len(names) and draw(st.booleans())
        return draw(st.sampled_from([str.lower, str.upper]))(names[value - low]) if use_name else str(value)

    values = st.integers(low, high)
    kind = draw(st.sampled_from(["value", "range", "step", "range-step", "from-step"]))
    first, last, step = draw(values), draw(values), draw(st.integers(1, high + 2))
    whole = list(range(low, high + 1))
    if kind == "value":
        return say(first), frozenset({first}), False
    if kind == "step":
        return f"*/{step}", frozenset(whole[::step]), True
    if kind == "from-step":
        return f"{say(first)}/{step}", frozenset(range(first, high + 1, step)), True
    run = whole[whole.index(first) :] + whole[: whole.index(first)]
    run = run[: run.index(last) + 1]
    if kind == "range":
        return f"{say(first)}-{say(last)}", frozenset(run), True
    return f"{say(first)}-{say(last)}/{step}", frozenset(run[::step]), True


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, names: list[str] | None = None) -> Element:
    if draw(st.integers(0, 3)) == 0:
        return "*", frozenset(range(low, high + 1)), True
    parts = draw(st.lists(elements(low, high, names or []), min_size=1, max_size=3))
    text = ",".join(part[0] for part in parts)
    return text, frozenset().union(*(part[1] for part in parts)), any(part[2] for part in parts)


def _always(_: date) -> bool:
    return True


def sunday_first(day: date) -> int:
    return day.isoweekday() % 7


@st.composite
def month_days(draw: st.DrawFn) -> tuple[str, DayTest]:
    kind = draw(st.sampled_from(["set", "set", "L", "LW", "L-", "W"]))
    if kind == "set":
        text, values, _ = draw(fields(1, 31))
        return text, lambda day: day.day in values
    if kind == "L":
        return "L", lambda day: (day + timedelta(days=1)).day == 1
    if kind == "LW":
        return "LW", lambda day: day == _nearest(day, 31)
    number = draw(st.integers(1, 30))
    if kind == "L-":
        return f"L-{number}", lambda day: day.day == monthrange(day.year, day.month)[1] - number
    return f"{number}W", lambda day: day == _nearest(day, number)


def _nearest(day: date, number: int) -> date:
    """Among the month's weekdays the one closest to the number; ties cannot happen."""
    length = monthrange(day.year, day.month)[1]
    target = min(number, length)
    weekdays = [d for d in range(1, length + 1) if day.replace(day=d).isoweekday() < 6]
    return day.replace(day=min(weekdays, key=lambda d: abs(d - target)))


@st.composite
def week_days(draw: st.DrawFn) -> tuple[str, DayTest]:
    kind = draw(st.sampled_from(["set", "set", "L", "#"]))
    if kind == "set":
        text, values, _ = draw(fields(0, 6, WEEKDAYS))
        # The field's maximum is 7, so `a/n` may reach it: spelled out here, not computed.
        for part in text.upper().split(","):
            if "/" in part and "-" not in part and "*" not in part:
                base, step = part.split("/")
                start = WEEKDAYS.index(base) if base in WEEKDAYS else int(base)
                values |= {0} if (7 - start) % int(step) == 0 else set()
        return text, lambda day: sunday_first(day) in values
    number = draw(st.integers(0, 6))
    name = draw(st.sampled_from([str(number), WEEKDAYS[number], WEEKDAYS[number].lower()]))
    if kind == "L":
        return f"{name}L", lambda day: sunday_first(day) == number and _same_month(day, 7) is False
    nth = draw(st.integers(1, 5))
    return f"{name}#{nth}", lambda day: sunday_first(day) == number and (day.day - 1) // 7 == nth - 1


def _same_month(day: date, ahead: int) -> bool:
    return (day + timedelta(days=ahead)).month == day.month


@st.composite
def patterns(draw: st.DrawFn, *, with_seconds: bool = False) -> Pattern:
    second = draw(fields(0, 59)) if with_seconds else ("", frozenset({0}), False)
    minute, hour = draw(fields(0, 59)), draw(fields(0, 23))
    # Half of the patterns fire every day: restricted days seldom meet a window around a jump.
    every_day = draw(st.booleans())
    month = ("*", frozenset(range(1, 13)), True) if every_day else draw(fields(1, 12, MONTHS))
    by_month_text, by_month = ("*", _always) if every_day else draw(month_days())
    by_week_text, by_week = ("*", _always) if every_day else draw(week_days())
    text = " ".join([second[0], minute[0], hour[0], by_month_text, month[0], by_week_text]).strip()

    def day(candidate: date) -> bool:
        if by_month_text == "*":
            return by_week_text == "*" or by_week(candidate)
        return by_month(candidate) or (by_week_text != "*" and by_week(candidate))

    is_interval = second[2] or minute[2] or hour[2]
    return Pattern(text, second[1], minute[1], hour[1], month[1], day, is_interval)


@lru_cache(maxsize=4096)
def jumps_in(zone: str, year: int) -> tuple[datetime, ...]:
    return tuple(
        jumps(ZoneInfo(zone), datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))
    )


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone and an instant in 1970-2100, near one of the zone's jumps where the year has any."""
    zone = draw(st.sampled_from(ZONES))
    year = draw(st.integers(1970, 2099))
    year_jumps = jumps_in(zone, year)
    base = draw(st.sampled_from(year_jumps)) if year_jumps else datetime(year, 6, 1, tzinfo=UTC)
    return zone, base + timedelta(seconds=draw(st.integers(-90_000, 90_000)))


def instants(first_year: int, last_year: int) -> st.SearchStrategy[datetime]:
    begin, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year, 1, 1, tzinfo=UTC)
    return st.integers(0, (end - begin) // timedelta(seconds=1)).map(lambda s: begin + timedelta(seconds=s))
