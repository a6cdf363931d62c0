"""The limits on text that every kind shares."""

from __future__ import annotations

# Longer than any real schedule, short enough to bound the time any parser can take.
MAX_LENGTH = 4096
BLANKS = " \t\r\n"
_MAX_SHOWN = 80


def clip(value: object) -> str:
    """Shorten a value for an error message."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
