"""Describe a schedule in one English sentence."""

from __future__ import annotations

from datetime import datetime
from functools import singledispatch

from punctual.schedules import english
from punctual.schedules.bounds import Bounded
from punctual.schedules.chronex.expression import CronExpression, EveryExpression, OnceExpression
from punctual.schedules.chronex.options import Options
from punctual.schedules.custom import CustomSchedule
from punctual.schedules.delay import FixedDelay
from punctual.schedules.iso8601 import Interval, Repeating
from punctual.schedules.krontab import Krontab, Policy, Spread
from punctual.schedules.once import Once
from punctual.schedules.posix import ZonedPosixCron
from punctual.schedules.wall_clock.months import MonthDays, WeekDays
from punctual.schedules.wall_clock.timetable import Timetable

_MAX_CLOCK_TIMES = 6
_LONGEST_MONTH = 31
_INSTANT = "%Y-%m-%d %H:%M:%S UTC"
_LIKELY = {"uniform": "", "skewEarly": ", more likely early", "skewLate": ", more likely late"}
_SEEDS = {"stable": "", "daily": ", one draw a day", "weekly": ", one draw a week"}
_CONCURRENCY = {
    "allow": "runs may overlap",
    "forbid": "skipped while the previous run is active",
    "replace": "cancels the previous run if it is active",
}


@singledispatch
def describe(schedule: object) -> str:
    """Describe a schedule; one that is none of this package's is described by its `str()`."""
    return str(schedule)


@describe.register
def _(schedule: CustomSchedule) -> str:
    return schedule.describe()


@describe.register
def _(schedule: CronExpression) -> str:
    sentence = f"{describe_table(schedule.recurrence.table)}, {schedule.timezone} time"
    return sentence + describe_options(schedule.options)


@describe.register
def _(schedule: EveryExpression) -> str:
    sentence = f"every {english.duration_words(schedule.min_interval)}"
    if schedule.min_interval != schedule.max_interval:
        sentence += f" to {english.duration_words(schedule.max_interval)}, drawn anew each time"
    return sentence + describe_options(schedule.options)


@describe.register
def _(schedule: OnceExpression) -> str:
    return f"once at {schedule.at:{_INSTANT}}" + describe_options(schedule.options)


@describe.register
def _(schedule: ZonedPosixCron) -> str:
    return f"{describe_table(schedule.cron.table)}, {schedule.timezone} time"


@describe.register
def _(schedule: Once) -> str:
    return f"once at {schedule.instant:{_INSTANT}}"


@describe.register
def _(schedule: FixedDelay) -> str:
    delay = english.duration_words(schedule.delay)
    return f"{delay} after the previous run has ended{_bounds(schedule.start, schedule.end)}"


@describe.register
def _(schedule: Repeating) -> str:
    times = "" if schedule.count is None else f", {english.count_noun(schedule.count, 'time')}"
    begin = f"{schedule.start:{_INSTANT}}"
    return f"every {_interval(schedule.interval)} from {begin}{times}, {schedule.timezone} time"


@describe.register
def _(schedule: Krontab) -> str:
    return describe(schedule.cron) + describe_spread(schedule.spread) + _policy(schedule.policy)


@describe.register
def _(schedule: Bounded) -> str:
    return f"{describe(schedule.inner)}{_bounds(schedule.start, schedule.end)}"


def describe_table(table: Timetable) -> str:
    """Describe a pattern: time of day, then days, then months."""
    times, days = _times(table), _days(table.month_days, table.week_days)
    parts = [times, days or ("" if "every" in times else "every day")]
    if english.step_of(table.months, 1, 12) != 1:
        parts.append(f"in {english.ranges(table.months, lambda month: english.MONTHS[month - 1])}")
    return " ".join(part for part in parts if part)


def describe_options(options: Options) -> str:
    """Describe the options of an expression, each after a semicolon."""
    text = ""
    if options.stagger:
        text += f"; shifted by a fixed part of {english.duration_words(options.stagger)} per trigger"
    if options.jitter:
        text += f"; delayed by up to {english.duration_words(options.jitter)}"
    if options.window:
        text += f"; skipped when more than {english.duration_words(options.window)} late"
    text += _bounds(options.from_, options.until)
    if options.max:
        text += f"; at most {english.count_noun(options.max, 'start')}"
    return text


def describe_spread(spread: Spread) -> str:
    """Describe how starts are spread around the nominal times, each part after a semicolon."""
    text = ""
    if spread.window_duration:
        text = (
            f"; spread over {english.duration_words(spread.window_duration)} {spread.window_mode} that time"
        )
        text += _LIKELY[spread.distribution.name] + _SEEDS[spread.seed_strategy]
    if spread.constraints.only:
        text += f"; only at {english.join_words(spread.constraints.only, 'or')}"
    if spread.constraints.avoid:
        text += f"; never at {english.join_words(spread.constraints.avoid, 'or')}"
    return text


def _policy(policy: Policy) -> str:
    text = ""
    if "concurrency" in policy.stated:
        text += f"; {_CONCURRENCY[policy.concurrency]}"
    if policy.deadline:
        text += f"; skipped when more than {english.duration_words(policy.deadline)} late"
    return text + ("; suspended: nothing runs" if policy.suspend else "")


def _bounds(start: datetime | None, end: datetime | None) -> str:
    begin = f"; from {start:{_INSTANT}}" if start else ""
    return begin + (f"; until {end:{_INSTANT}}" if end else "")


def _interval(interval: Interval) -> str:
    years, months = divmod(interval.months, 12)
    counts = ((years, "year"), (months, "month"), (interval.days, "day"))
    parts = [english.count_noun(count, noun) for count, noun in counts if count]
    return " ".join(parts + ([english.duration_words(interval.elapsed)] if interval.elapsed else []))


def _times(table: Timetable) -> str:
    seconds, minutes, hours = (english.members(mask) for mask in (table.seconds, table.minutes, table.hours))
    if len(seconds) * len(minutes) * len(hours) <= _MAX_CLOCK_TIMES:
        clocks = [_clock(h, m, s) for h in hours for m in minutes for s in seconds]
        return f"at {english.join_words(clocks)}"
    parts = [
        _part(table.seconds, 59, "second") if table.seconds != 1 else "",
        _part(table.minutes, 59, "minute"),
        _part(table.hours, 23, "hour"),
    ]
    return _join_parts([part for part in parts if part])


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02d}:{minute:02d}:{second:02d}" if second else f"{hour:02d}:{minute:02d}"


def _part(mask: int, high: int, noun: str) -> str:
    step = english.step_of(mask, 0, high)
    if step is not None and step <= high:
        return english.every(step, noun, is_even=(high + 1) % step == 0)
    plural = "s" if mask & mask - 1 else ""
    return f"at {noun}{plural} {english.ranges(mask, str)}"


def _join_parts(parts: list[str]) -> str:
    """Join the parts with "of", leaving out a redundant trailing "of every hour"."""
    while parts[-1] in {"every minute", "every hour"} and "every" in "".join(parts[-2:-1]):
        parts = parts[:-1]
    return " of ".join(part if not index else part.removeprefix("at ") for index, part in enumerate(parts))


def _days(month_days: MonthDays, week_days: WeekDays) -> str:
    rules = [text for text in (_month_days(month_days), _week_days(week_days)) if text]
    return f"on {english.join_words(rules, 'or')}" if rules else ""


def _month_days(rule: MonthDays) -> str:
    if rule.kind == "set":
        plural = "s" if rule.value & rule.value - 1 else ""
        return f"day{plural} {english.ranges(rule.value, str)} of the month"
    if rule.kind == "last":
        before = f"{english.count_noun(rule.value, 'day')} before " if rule.value else ""
        return f"{before}the last day of the month"
    if rule.kind == "weekday":
        nearest = "the last day" if rule.value == _LONGEST_MONTH else f"day {rule.value}"
        return f"the weekday nearest to {nearest} of the month"
    return ""


def _week_days(rule: WeekDays) -> str:
    if rule.kind == "set":
        return english.ranges(rule.value, english.DAYS.__getitem__)
    if rule.kind == "any":
        return ""
    which = "last" if rule.kind == "last" else english.ordinal(rule.nth)
    return f"the {which} {english.DAYS[rule.value]} of the month"
