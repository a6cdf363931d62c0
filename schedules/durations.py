"""Duration text such as `1h30m` in -> timedelta out, and back in canonical form."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SHAPE = re.compile(r"(?:[0-9]{1,15}(?:ms|[smhd]))+")
_PART = re.compile(r"([0-9]+)(ms|[smhd])")
_MAX_LENGTH = 200
# Ten thousand years: everything above can never be added to a representable instant.
_LONGEST_MS = 3_652_500 * _UNITS["d"]


def parse_duration(text: str) -> timedelta | None:
    """None when the text is not a duration of this grammar or is absurdly long."""
    if len(text) > _MAX_LENGTH or not _SHAPE.fullmatch(text):
        return None
    total = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return timedelta(milliseconds=total) if total <= _LONGEST_MS else None


def milliseconds(delta: timedelta) -> int:
    """Whole milliseconds of a duration, cut towards minus infinity."""
    return delta // timedelta(milliseconds=1)


def format_duration(delta: timedelta) -> str:
    """Largest unit first, zero units left out: `1h30m`, `500ms`, `0s`."""
    rest = milliseconds(delta)
    parts: list[str] = []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
