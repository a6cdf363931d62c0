"""A schedule text with an optional `kind:` prefix in -> the schedule of that kind out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Protocol, cast, runtime_checkable

from schedules import chronex, delay, iso8601, krontab, once, posix
from schedules.errors import UnknownKindError
from schedules.text import BLANKS, clip


@runtime_checkable
class Schedule(Protocol):
    """Anything that can name its instants; implement these two methods to bring your own ticker."""

    def next_after(self, instant: datetime, /) -> datetime | None: ...

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]: ...


class Parser(Protocol):
    """Turns the text after the prefix into a schedule."""

    def __call__(
        self, text: str, *, reference: datetime | None, timezone: str | tzinfo | None, trigger_id: str
    ) -> Schedule: ...


_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31}):")
_KINDS: dict[str, Parser] = {
    "chronex": chronex.parse,
    "posix": posix.zoned,
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
    """Chronex, unless the text begins with the prefix of another kind, such as `posix:`."""
    kind, body = split_kind(text)
    return _KINDS[kind](body, reference=reference, timezone=timezone, trigger_id=trigger_id)


def split_kind(text: str) -> tuple[str, str]:
    """The kind a text names, `chronex` by default, and what follows the prefix."""
    # Chronex never begins with a word and a colon, so the prefix cannot hide an expression.
    found = _PREFIX.match(text) if isinstance(cast("object", text), str) else None
    if not found:
        return "chronex", text
    kind = found[1].lower()
    if kind not in _KINDS:
        known = ", ".join(sorted(_KINDS))
        message = f"kind: unknown schedule kind '{clip(kind)}', known are {known}"
        raise UnknownKindError(message, field="kind", value=clip(kind), position=0)
    return kind, text[found.end() :].lstrip(BLANKS)


def register(kind: str, parser: Parser) -> None:
    """Make `kind:` a prefix that `parse` understands; a taken name is refused."""
    if not _PREFIX.fullmatch(f"{kind}:") or kind != kind.lower():
        raise UnknownKindError(
            f"kind: '{clip(kind)}' is not a lowercase word", field="kind", value=clip(kind)
        )
    if _KINDS.setdefault(kind, parser) is not parser:
        raise UnknownKindError(f"kind: '{kind}' is already registered", field="kind", value=kind)


def kinds() -> tuple[str, ...]:
    """Every prefix `parse` understands."""
    return tuple(sorted(_KINDS))
