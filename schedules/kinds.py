"""Choose the parser of a schedule text by its `kind:` prefix, and register kinds.

A new kind is a module with a `Parser` and one entry in `_KINDS`; a user's own kind calls `register`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Protocol, TypedDict, cast, runtime_checkable

from punctual.schedules import chronex, delay, iso8601, krontab, once, posix
from punctual.schedules.bounds import apply_bounds, split_bounds
from punctual.schedules.custom import Ticker, guarded
from punctual.schedules.errors import ScheduleError, UnknownKindError
from punctual.schedules.suggestions import did_you_mean
from punctual.schedules.text import BLANKS, clip
from punctual.schedules.wall_clock.zones import zone_of


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


class CustomParser(Protocol):
    """A user's own parser: what it returns needs only `next_after`."""

    def __call__(
        self, text: str, *, reference: datetime | None, timezone: str | tzinfo | None, trigger_id: str
    ) -> Ticker: ...


class _Facts(TypedDict):
    reference: datetime | None
    timezone: str | tzinfo | None
    trigger_id: str


_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31}):")
_KINDS: dict[str, CustomParser] = {
    "chronex": chronex.parse,
    "posix": posix.parse_zoned,
    "iso8601": iso8601.parse,
    "once": once.parse,
    "delay": delay.parse,
    "kron": krontab.parse,
}
BUILT_IN = frozenset(_KINDS)


def parse(
    text: str,
    *,
    reference: datetime | None = None,
    timezone: str | tzinfo | None = None,
    trigger_id: str = "",
) -> Schedule:
    """Parse a text as Chronex, or as the kind named by its prefix, such as `posix:`."""
    kind, body = split_kind(text)
    if kind == "chronex" and body is text:
        return chronex.parse(text, reference=reference, timezone=timezone, trigger_id=trigger_id)
    try:
        return _parse_kind(kind, body, reference, timezone, trigger_id)
    except ScheduleError as error:
        error.move_by(len(text) - len(body))
        raise


def _parse_kind(
    kind: str, body: str, reference: datetime | None, timezone: str | tzinfo | None, trigger_id: str
) -> Schedule:
    head, block = (body, None) if kind == "chronex" else split_bounds(body, is_custom=kind not in BUILT_IN)
    parser = _KINDS[kind]
    facts: _Facts = {"reference": reference, "timezone": timezone, "trigger_id": trigger_id}
    if kind in BUILT_IN:
        schedule = cast("Parser", parser)(head, **facts)
    else:
        schedule = cast("Schedule", guarded(kind, head, lambda: parser(head, **facts)))
    return schedule if block is None else apply_bounds(schedule, block, zone_of(timezone or "UTC"))


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
        hint = did_you_mean(kind, tuple(_KINDS))
        raise UnknownKindError(message, field="kind", value=clip(kind), position=0, hint=hint)
    return kind, text[match.end() :].lstrip(BLANKS)


def register(kind: str, parser: CustomParser) -> None:
    """Register a parser for the prefix `kind:`; a name that is taken raises `UnknownKindError`."""
    if not _PREFIX.fullmatch(f"{kind}:") or kind != kind.lower():
        raise UnknownKindError(
            f"kind: '{clip(kind)}' is not a lowercase word", field="kind", value=clip(kind)
        )
    if _KINDS.setdefault(kind, parser) is not parser:
        raise UnknownKindError(f"kind: '{kind}' is already registered", field="kind", value=kind)


def is_custom(text: str) -> bool:
    """Whether a text is of a kind that a user has registered."""
    match = _PREFIX.match(text)
    return match is not None and match[1].lower() in _KINDS.keys() - BUILT_IN


def kind_names() -> tuple[str, ...]:
    """The registered kinds, sorted."""
    return tuple(sorted(_KINDS))
