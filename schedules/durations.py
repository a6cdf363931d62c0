"""Parse and format durations such as `1h30m`."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SHAPE = re.compile(r"(?:[0-9]{1,15}(?:ms|[smhd]))+")
_PART = re.compile(r"([0-9]+)(ms|[smhd])")
_MAX_LENGTH = 200
# Ten thousand years: a longer duration cannot be added to any representable instant.
_MAX_MILLISECONDS = 3_652_500 * _UNITS["d"]


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration; None if the text does not match the grammar or exceeds the limits."""
    if len(text) > _MAX_LENGTH or not _SHAPE.fullmatch(text):
        return None
    total = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return timedelta(milliseconds=total) if total <= _MAX_MILLISECONDS else None


def milliseconds(delta: timedelta) -> int:
    """Whole milliseconds of a duration, rounded down."""
    return delta // timedelta(milliseconds=1)


def format_duration(delta: timedelta) -> str:
    """Format a duration, largest unit first, without zero units: `1h30m`, `500ms`, `0s`."""
    rest = milliseconds(delta)
    parts: list[str] = []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
