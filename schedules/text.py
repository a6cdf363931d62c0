"""Any value in -> text short enough to show out, and the limits every grammar shares."""

from __future__ import annotations

# Longer than any schedule a person writes, short enough that no grammar can be made to work for long.
MAX_LENGTH = 4096
BLANKS = " \t\r\n"
_SHOWN = 80


def clip(value: object) -> str:
    """A value short enough for a message, however large the input was."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
