"""Convert datetimes to UTC instants inside the supported years, and step through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import cast

from punctual.schedules.errors import NaiveInstantError
from punctual.schedules.text import clip

# One year of slack at either end of datetime's range keeps every zone shift representable.
EARLIEST = datetime(2, 1, 1, tzinfo=UTC)
LATEST = datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC)
TICK = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)


def utc(instant: datetime, field: str = "instant") -> datetime:
    """Convert an aware datetime to UTC; anything else raises `NaiveInstantError`."""
    if not isinstance(cast("object", instant), datetime):
        value = clip(instant)
        raise NaiveInstantError(f"{field}: expected an aware datetime, got {value}", field=field, value=value)
    if not EARLIEST.year <= instant.year <= LATEST.year and instant.tzinfo is not None:
        return EARLIEST - TICK if instant.year < EARLIEST.year else LATEST
    if instant.tzinfo is UTC:
        return instant
    if _offset(instant) is None:
        value = clip(f"{instant.replace(tzinfo=None).isoformat()}")
        raise NaiveInstantError(f"{field}: {value} has no offset", field=field, value=value)
    return instant.astimezone(UTC)


def _offset(instant: datetime) -> timedelta | None:
    try:
        return instant.utcoffset()
    except Exception:  # noqa: BLE001 -- a tzinfo is code of the caller
        return None


def clamp(instant: datetime) -> datetime:
    """Move an instant outside the supported years to their first or last instant."""
    return min(max(instant, EARLIEST - TICK), LATEST)


def shift_instant(instant: datetime, delta: timedelta) -> datetime | None:
    """instant + delta, or None past the last supported year."""
    try:
        moved = instant + delta
    except OverflowError:
        return None
    return moved if moved <= LATEST else None


def iterate(
    next_after: Callable[[datetime], datetime | None], start: datetime, end: datetime
) -> Iterator[datetime]:
    """Yield the results of repeated `next_after` in (start, end]."""
    end = utc(end, "end")
    instant = next_after(utc(start, "start"))
    while instant is not None and instant <= end:
        yield instant
        instant = next_after(instant)


def rfc3339(instant: datetime) -> str:
    """Format as `2026-03-01T00:00:00Z`, with a fraction only if the instant has one."""
    precision = "seconds"
    if instant.microsecond:
        precision = "microseconds" if instant.microsecond % 1000 else "milliseconds"
    return instant.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def format_bounds(start: datetime | None, end: datetime | None) -> str:
    """The block of a schedule's text that limits it to a start and an end, with the space before it."""
    bounds = {"from": start, "until": end}
    parts = [f"{key}:{rfc3339(instant)}" for key, instant in bounds.items() if instant is not None]
    return f" {{{', '.join(parts)}}}" if parts else ""
