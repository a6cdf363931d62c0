"""A schedule in -> one plain English sentence out."""

from __future__ import annotations

from functools import singledispatch

from schedules import words
from schedules.bounds import Bounded
from schedules.chronex.expression import CronExpression, EveryExpression, OnceExpression
from schedules.chronex.options import Options
from schedules.delay import FixedDelay
from schedules.iso8601 import Interval, Repeating
from schedules.krontab import Krontab
from schedules.months import MonthDays, WeekDays
from schedules.once import Once
from schedules.posix import ZonedPosixCron
from schedules.timetable import Timetable

_FEW = 6
_LONGEST_MONTH = 31
_INSTANT = "%Y-%m-%d %H:%M:%S UTC"


@singledispatch
def describe(schedule: object) -> str:
    """Custom kinds describe themselves by `str()`."""
    return str(schedule)


@describe.register
def _(schedule: CronExpression) -> str:
    said = f"{describe_table(schedule.recurrence.table)}, {schedule.timezone} time"
    return said + describe_options(schedule.options)


@describe.register
def _(schedule: EveryExpression) -> str:
    said = f"every {words.lasting(schedule.shortest)}"
    if schedule.shortest != schedule.longest:
        said += f" to {words.lasting(schedule.longest)}, drawn anew each time"
    return said + describe_options(schedule.options)


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
    return f"{words.lasting(schedule.delay)} after the previous run has ended"


@describe.register
def _(schedule: Repeating) -> str:
    times = "" if schedule.count is None else f", {words.counted(schedule.count, 'time')}"
    begin = f"{schedule.start:{_INSTANT}}"
    return f"every {_interval(schedule.interval)} from {begin}{times}, {schedule.timezone} time"


@describe.register
def _(schedule: Krontab) -> str:
    said = describe(schedule.cron)
    if schedule.spread.window_duration:
        length = words.lasting(schedule.spread.window_duration)
        said += f"; spread over {length} {schedule.spread.window_mode} that time"
    return said


@describe.register
def _(schedule: Bounded) -> str:
    begin = f" from {schedule.start:{_INSTANT}}" if schedule.start else ""
    end = f" until {schedule.end:{_INSTANT}}" if schedule.end else ""
    return f"{describe(schedule.inner)}{begin}{end}"


def describe_table(table: Timetable) -> str:
    """Time of day, then days, then months."""
    times, days = _times(table), _days(table.month_days, table.week_days)
    parts = [times, days or ("" if "every" in times else "every day")]
    if words.step_of(table.months, 1, 12) != 1:
        parts.append(f"in {words.spans(table.months, lambda month: words.MONTHS[month - 1])}")
    return " ".join(part for part in parts if part)


def describe_options(options: Options) -> str:
    """What the braces add, each with a semicolon in front."""
    said = ""
    if options.stagger:
        said += f"; shifted by a fixed part of {words.lasting(options.stagger)} per trigger"
    if options.jitter:
        said += f"; delayed by up to {words.lasting(options.jitter)}"
    if options.window:
        said += f"; skipped when more than {words.lasting(options.window)} late"
    if options.from_:
        said += f"; from {options.from_:{_INSTANT}}"
    if options.until:
        said += f"; until {options.until:{_INSTANT}}"
    if options.max:
        said += f"; at most {words.counted(options.max, 'start')}"
    return said


def _interval(interval: Interval) -> str:
    years, months = divmod(interval.months, 12)
    counts = ((years, "year"), (months, "month"), (interval.days, "day"))
    parts = [words.counted(count, noun) for count, noun in counts if count]
    return " ".join(parts + ([words.lasting(interval.elapsed)] if interval.elapsed else []))


def _times(table: Timetable) -> str:
    seconds, minutes, hours = (words.members(mask) for mask in (table.seconds, table.minutes, table.hours))
    if len(seconds) * len(minutes) * len(hours) <= _FEW:
        clocks = [_clock(h, m, s) for h in hours for m in minutes for s in seconds]
        return f"at {words.listed(clocks)}"
    parts = [
        _part(table.seconds, 59, "second") if table.seconds != 1 else "",
        _part(table.minutes, 59, "minute"),
        _part(table.hours, 23, "hour"),
    ]
    return _joined([part for part in parts if part])


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02d}:{minute:02d}:{second:02d}" if second else f"{hour:02d}:{minute:02d}"


def _part(mask: int, high: int, noun: str) -> str:
    step = words.step_of(mask, 0, high)
    if step is not None and step <= high:
        return words.every(step, noun, is_even=(high + 1) % step == 0)
    several = "s" if mask & mask - 1 else ""
    return f"at {noun}{several} {words.spans(mask, str)}"


def _joined(parts: list[str]) -> str:
    """`every 5 minutes`, `at minute 30 of every hour`: a bare `every` further out says nothing new."""
    while parts[-1] in {"every minute", "every hour"} and "every" in "".join(parts[-2:-1]):
        parts = parts[:-1]
    return " of ".join(part if not index else part.removeprefix("at ") for index, part in enumerate(parts))


def _days(month_days: MonthDays, week_days: WeekDays) -> str:
    said = [text for text in (_month_days(month_days), _week_days(week_days)) if text]
    return f"on {words.listed(said, 'or')}" if said else ""


def _month_days(rule: MonthDays) -> str:
    if rule.kind == "set":
        several = "s" if rule.value & rule.value - 1 else ""
        return f"day{several} {words.spans(rule.value, str)} of the month"
    if rule.kind == "last":
        before = f"{words.counted(rule.value, 'day')} before " if rule.value else ""
        return f"{before}the last day of the month"
    if rule.kind == "weekday":
        nearest = "the last day" if rule.value == _LONGEST_MONTH else f"day {rule.value}"
        return f"the weekday nearest to {nearest} of the month"
    return ""


def _week_days(rule: WeekDays) -> str:
    if rule.kind == "set":
        return words.spans(rule.value, words.DAYS.__getitem__)
    if rule.kind == "any":
        return ""
    which = "last" if rule.kind == "last" else words.ordinal(rule.nth)
    return f"the {which} {words.DAYS[rule.value]} of the month"
