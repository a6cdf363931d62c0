"""The `posix:` kind: strict POSIX cron.

A dialect separate from Chronex: no steps, names, macros, wrap-around or `7`. Minutes in a daylight
saving gap do not fire, repeated minutes fire once, and a text that can never fire is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import cast

from punctual.schedules.errors import CronCalculationError, InvalidCronExpressionError
from punctual.schedules.text import MAX_LENGTH, clip
from punctual.schedules.utc import TICK, clamp, utc
from punctual.schedules.wall_clock.months import MonthDays, WeekDays
from punctual.schedules.wall_clock.recurrence import Recurrence
from punctual.schedules.wall_clock.timetable import Pattern, Timetable, timetable
from punctual.schedules.wall_clock.zones import POSIX, Zone, zone_of

SEARCH_YEARS = 10
_RANGES = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 6)}
_WORD = re.compile(r"[^ \t]+")
_NUMBER = re.compile(r"[0-9]+")
_MAX_DIGITS = 2
_SIGNS = (
    ("/", "must not use step syntax"),
    ("?", "must not use Quartz tokens"),
    ("#", "must not use Quartz tokens"),
    ("@", "must not use macro expressions"),
)


@dataclass(frozen=True, slots=True)
class PosixCron:
    """A POSIX cron pattern; equal texts are equal patterns."""

    expression: str
    table: Timetable = field(compare=False, repr=False)

    def next_after(self, instant: datetime, zone: str | tzinfo) -> datetime:
        """The first firing minute after the instant."""
        minute = Recurrence(self.table, zone_of(zone), POSIX).next_after(instant)
        return self._require(minute, instant)

    def previous_at(self, instant: datetime, zone: str | tzinfo) -> datetime:
        """The last firing minute at or before the instant."""
        return self._require(self._previous(clamp(utc(instant)), zone_of(zone)), instant)

    def matches(self, instant: datetime, zone: str | tzinfo) -> bool:
        """Whether the minute that contains the instant fires."""
        instant = clamp(utc(instant))
        span = zone_of(zone).span_at(instant)
        minute = (instant + span.shift).replace(second=0, microsecond=0)
        return minute >= span.fresh and self.table.at_or_before(minute) == minute

    def _previous(self, instant: datetime, zone: Zone) -> datetime | None:
        span = zone.span_at(instant)
        # In the second pass of a fold, every wall time up to the end of the first pass has fired already.
        wall = max(instant + span.shift, span.fresh - TICK)
        while (match := self.table.at_or_before(wall)) is not None:
            placement = zone.place(match)
            if placement is None or not placement.in_gap:
                return placement and placement.instant
            wall = zone.span_at(placement.instant).fresh - TICK
            if wall >= match:
                return None  # no gap, but a time before the first supported year
        return None

    def _require(self, minute: datetime | None, instant: datetime) -> datetime:
        if minute is None:
            cause = f"no occurrence within {SEARCH_YEARS} years"
            raise CronCalculationError(self.expression, instant.isoformat(), cause)
        return minute

    def __str__(self) -> str:
        return self.expression


@dataclass(frozen=True, slots=True)
class ZonedPosixCron:
    """A POSIX pattern bound to a zone; implements `Schedule`."""

    cron: PosixCron
    timezone: str
    recurrence: Recurrence = field(compare=False, repr=False)

    @property
    def zone(self) -> Zone:
        return self.recurrence.zone

    def next_after(self, instant: datetime, /) -> datetime | None:
        return self.recurrence.next_after(instant)

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return self.recurrence.between(start, end)

    def __str__(self) -> str:
        return f"posix:{self.cron}"


def parse(text: str) -> PosixCron:
    """Parse five strict fields; the leftmost invalid field is reported."""
    if not isinstance(cast("object", text), str):  # registrations come from callers' own code
        raise InvalidCronExpressionError(clip(text), "expression", "must be a text", 0)
    return _parse(text)


@lru_cache(maxsize=4096)
def _parse(text: str) -> PosixCron:
    words = list(_WORD.finditer(text)) if len(text) <= MAX_LENGTH else []
    if len(words) != len(_RANGES):
        position = words[0].start() if words else 0
        raise InvalidCronExpressionError(text, "expression", _count_reason(text, len(words)), position)
    masks = [_mask(text, name, word) for name, word in zip(_RANGES, words, strict=True)]
    minutes, hours, days, months, weekdays = masks
    # "Restricted" is textual: `0-6` names every weekday and still counts as a restriction.
    month_days = MonthDays("any") if words[2][0] == "*" else MonthDays("set", days)
    week_days = WeekDays("any") if words[4][0] == "*" else WeekDays("set", weekdays)
    pattern = Pattern(1, minutes, hours, month_days, months, week_days)
    table = timetable(pattern, SEARCH_YEARS)
    if table.never_fires():
        reason = "names no day that the months have"
        raise InvalidCronExpressionError(text, "day", reason, words[2].start())
    return PosixCron(text, table)


def parse_zoned(
    text: str,
    *,
    reference: datetime | None = None,  # noqa: ARG001 -- every kind is called alike
    timezone: str | tzinfo | None = None,
    trigger_id: str = "",  # noqa: ARG001
) -> ZonedPosixCron:
    """Parse a pattern and bind it to the caller's zone, UTC by default."""
    try:
        cron, zone = parse(text), zone_of("UTC" if timezone is None else timezone)
    except InvalidCronExpressionError as error:
        if not error.reason.startswith(("value", "must not be longer")):
            error.hint = "names, steps, macros and seconds are allowed without the prefix posix:"
        raise
    return ZonedPosixCron(cron, zone.name, Recurrence(cron.table, zone, POSIX))


def _count_reason(text: str, count: int) -> str:
    if len(text) > MAX_LENGTH:
        return f"must not be longer than {MAX_LENGTH} characters"
    if text.lstrip(" \t").startswith("@"):
        return "must not use macro expressions"
    return f"must have exactly 5 fields, got {count}"


def _mask(text: str, name: str, word: re.Match[str]) -> int:
    low, high = _RANGES[name]
    content, position = word[0], word.start()
    if content == "*":
        return (2 << high) - (1 << low)
    mask = 0
    for element in content.split(","):
        first, dash, last = element.partition("-")
        start = _number(text, name, first, position)
        stop = _number(text, name, last, position + len(first) + 1) if dash else start
        if start > stop:
            reason = f"must not wrap around, got {element}"
            raise InvalidCronExpressionError(text, name, reason, position)
        mask |= (2 << stop) - (1 << start)
        position += len(element) + 1
    return mask


def _number(text: str, name: str, digits: str, position: int) -> int:
    low, high = _RANGES[name]
    if not _NUMBER.fullmatch(digits):
        raise InvalidCronExpressionError(text, name, _sign_reason(digits), position)
    significant = digits.lstrip("0") or "0"
    # Two digits cover every range; longer ones need no conversion to be refused.
    value = int(significant) if len(significant) <= _MAX_DIGITS else high + 1
    if not low <= value <= high:
        reason = f"value {significant[:20]} out of range [{low}, {high}]"
        raise InvalidCronExpressionError(text, name, reason, position)
    return value


def _sign_reason(digits: str) -> str:
    for sign, reason in _SIGNS:
        if sign in digits:
            return reason
    if digits.isascii() and digits.isalpha():
        return f"must not use named values, got {digits[:20]}"
    return f"must be decimal numbers, ranges or *, got {digits[:20]!r}"
