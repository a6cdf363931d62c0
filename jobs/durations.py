"""A timedelta or a text such as `1h30m` → a timedelta within bounds; ValueError says what is allowed."""

from datetime import timedelta
from functools import lru_cache

from schedules.durations import format_duration, parse_duration

__all__ = ["LONGEST", "duration", "format_duration"]

SHORTEST = timedelta(milliseconds=1)  # what is less would be stored as zero
LONGEST = timedelta(days=366)


def duration(value: object, *, zero: bool = False) -> timedelta:
    span = value if isinstance(value, timedelta) else _parsed(value)
    if span is None:
        raise ValueError("expected a duration such as 30s, 5m or 1h30m")
    if not (timedelta() if zero else SHORTEST) <= span <= LONGEST:
        raise ValueError(f"expected a duration from {'0s' if zero else '1ms'} to 366d")
    return span


def _parsed(value: object) -> timedelta | None:
    return _of(value) if isinstance(value, str) else None


_of = lru_cache(maxsize=1024)(parse_duration)  # every run has a timeout, and most have the same
