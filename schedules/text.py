"""The limits on text that every kind shares."""

from __future__ import annotations

# Longer than any real schedule, short enough to bound the time any parser can take.
MAX_LENGTH = 4096
BLANKS = " \t\r\n"
_MAX_SHOWN = 80


def text_problem(text: object) -> str:
    """Why no kind reads this as a schedule; empty if it may be one."""
    if not isinstance(text, str):
        return "expected a text"
    if len(text) > MAX_LENGTH:
        return f"longer than {MAX_LENGTH} characters"
    return "" if is_unicode(text) else "lone surrogates are not text"


def is_unicode(text: str) -> bool:
    """Whether the text can be encoded: a lone surrogate cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def clip(value: object) -> str:
    """Shorten a value for an error message."""
    text = value if isinstance(value, str) else _repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 -- code of the caller
        return f"a {type(value).__name__}"
