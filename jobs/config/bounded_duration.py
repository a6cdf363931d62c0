"""Read a duration of a setting, as a timedelta or as text such as `1h30m`, within bounds."""

from datetime import timedelta
from functools import lru_cache

from punctual.schedules.durations import format_duration, parse_duration

__all__ = ["MAX_DURATION", "duration", "format_duration"]

MIN_DURATION = timedelta(milliseconds=1)  # anything shorter would be stored as zero
MAX_DURATION = timedelta(days=366)


def duration(value: object, *, zero: bool = False) -> timedelta:
    """Return the duration; ValueError says what is allowed. `zero` allows a duration of zero."""
    span = value if isinstance(value, timedelta) else _parse(value)
    if span is None:
        raise ValueError("expected a duration such as 30s, 5m or 1h30m")
    if not (timedelta() if zero else MIN_DURATION) <= span <= MAX_DURATION:
        raise ValueError(f"expected a duration from {'0s' if zero else '1ms'} to 366d")
    return span


def _parse(value: object) -> timedelta | None:
    return _parse_text(value) if isinstance(value, str) else None


_parse_text = lru_cache(maxsize=1024)(parse_duration)  # every run reads a timeout, and most are the same
