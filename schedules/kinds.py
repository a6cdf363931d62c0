"""Choose the parser of a schedule text by its `kind:` prefix, and register kinds.

A new kind is a module with a `Parser` and one entry in `_KINDS`; a user's own kind calls `register`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Protocol, cast, runtime_checkable

from punctual.schedules import chronex, delay, iso8601, krontab, once, posix
from punctual.schedules.errors import ScheduleError, UnknownKindError
from punctual.schedules.text import BLANKS, clip


@runtime_checkable
class Schedule(Protocol):
    """What every kind of schedule implements."""

    def next_after(self, instant: datetime, /) -> datetime | None: ...

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]: ...


class Parser(Protocol):
    """Parses the text after the prefix; every kind takes the same arguments."""

    def __call__(
        self, text: str, *, reference: datetime | None, timezone: str | tzinfo | None, trigger_id: str
    ) -> Schedule: ...


_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31}):")
_KINDS: dict[str, Parser] = {
    "chronex": chronex.parse,
    "posix": posix.parse_zoned,
    "iso8601": iso8601.parse,
    "once": once.parse,
    "delay": delay.parse,
    "kron": krontab.parse,
}


def parse(
    text: str,
    *,
    reference: datetime | None = None,
    timezone: str | tzinfo | None = None,
    trigger_id: str = "",
) -> Schedule:
    """Parse a text as Chronex, or as the kind named by its prefix, such as `posix:`."""
    kind, body = split_kind(text)
    try:
        return _KINDS[kind](body, reference=reference, timezone=timezone, trigger_id=trigger_id)
    except ScheduleError as error:
        if body is not text:
            error.move_by(len(text) - len(body))
        raise


def split_kind(text: str) -> tuple[str, str]:
    """Split a text into its kind, `chronex` by default, and the text after the prefix."""
    # Chronex never begins with a word and a colon, so no Chronex text is mistaken for a prefix.
    match = _PREFIX.match(text) if isinstance(cast("object", text), str) else None
    if not match:
        return "chronex", text
    kind = match[1].lower()
    if kind not in _KINDS:
        known = ", ".join(sorted(_KINDS))
        message = f"kind: unknown schedule kind '{clip(kind)}', known are {known}"
        raise UnknownKindError(message, field="kind", value=clip(kind), position=0)
    return kind, text[match.end() :].lstrip(BLANKS)


def register(kind: str, parser: Parser) -> None:
    """Register a parser for the prefix `kind:`; a name that is taken raises `UnknownKindError`."""
    if not _PREFIX.fullmatch(f"{kind}:") or kind != kind.lower():
        raise UnknownKindError(
            f"kind: '{clip(kind)}' is not a lowercase word", field="kind", value=clip(kind)
        )
    if _KINDS.setdefault(kind, parser) is not parser:
        raise UnknownKindError(f"kind: '{kind}' is already registered", field="kind", value=kind)


def kind_names() -> tuple[str, ...]:
    """The registered kinds, sorted."""
    return tuple(sorted(_KINDS))
