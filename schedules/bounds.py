"""Limit any schedule to a start and an end without moving its phase.

The text of any kind may end with `{from:…, until:…}`. Chronex reads the block itself, with its other options;
for every other kind `kinds.parse` splits it off and applies it here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from punctual.schedules.chronex import error_codes
from punctual.schedules.chronex.expression import Expression
from punctual.schedules.chronex.options import KEYS, OptionsDraft, parse_options, read_pairs
from punctual.schedules.delay import FixedDelay
from punctual.schedules.errors import ChronexError
from punctual.schedules.text import MAX_LENGTH
from punctual.schedules.utc import TICK, format_bounds, utc
from punctual.schedules.wall_clock.zones import Zone

if TYPE_CHECKING:
    from punctual.schedules.kinds import Schedule

_BLOCK = re.compile(r"[ \t\r\n]\{([^{}]*)\}[ \t\r\n]*\Z")
_BOUNDS = ("from", "until")


@dataclass(frozen=True, slots=True)
class Bounded:
    """Fires when the inner schedule does and start <= instant <= end."""

    inner: Schedule
    start: datetime | None
    end: datetime | None

    @property
    def zone(self) -> Zone | None:
        zone = getattr(self.inner, "zone", None)
        return zone if isinstance(zone, Zone) else None

    def next_after(self, instant: datetime, /) -> datetime | None:
        instant = utc(instant)
        if self.start is not None and instant < self.start:
            instant = self.start - TICK
        following = self.inner.next_after(instant)
        return None if following is None or (self.end is not None and following > self.end) else following

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        start, end = utc(start, "start"), utc(end, "end")
        if self.start is not None:
            start = max(start, self.start - TICK)
        if self.end is not None:
            end = min(end, self.end)
        return self.inner.between(start, end)

    def __str__(self) -> str:
        return f"{self.inner}{format_bounds(self.start, self.end)}"


def bound(
    schedule: Schedule, *, start: datetime | None = None, end: datetime | None = None
) -> Bounded | FixedDelay:
    """Limit a schedule; both bounds are inclusive and optional."""
    start = None if start is None else utc(start, "start")
    end = None if end is None else utc(end, "end")
    if isinstance(schedule, FixedDelay):
        return replace(schedule, start=start, end=end)
    return Bounded(schedule, start, end)


def unbounded(schedule: Schedule) -> Schedule:
    """The schedule inside the bounds, which has the options and the spread."""
    return schedule.inner if isinstance(schedule, Bounded) else schedule


def is_within(schedule: Schedule, instant: datetime) -> bool:
    """Whether the instant lies between the schedule's start and end, of whichever kind it is."""
    start, end = _limits(schedule)
    instant = utc(instant)
    return (start is None or start <= instant) and (end is None or instant <= end)


def _limits(schedule: Schedule) -> tuple[datetime | None, datetime | None]:
    if isinstance(schedule, Expression):
        return schedule.options.from_, schedule.options.until
    if isinstance(schedule, Bounded | FixedDelay):
        return schedule.start, schedule.end
    return None, None


def split_bounds(text: str, *, is_custom: bool) -> tuple[str, OptionsDraft | None]:
    """Split the block off the text of a kind; a custom kind may use braces for something else."""
    is_short = len(text) <= MAX_LENGTH  # longer ones are refused by every kind
    match = _BLOCK.search(text) if is_short and text.rstrip().endswith("}") else None
    if match is None:
        return text, None
    draft = parse_options(match[1], match.start(1))
    others = [(key, at) for key, at, _, _ in read_pairs(match[1], match.start(1)) if key not in _BOUNDS]
    if others and is_custom:
        return text, None
    draft.problems.extend(error_codes.only_bounds(key, at) for key, at in others if key in KEYS)
    if draft.problems:
        raise ChronexError(tuple(sorted(draft.problems, key=lambda item: item.position or 0)))
    return text[: match.start()], draft


def apply_bounds(schedule: Schedule, draft: OptionsDraft, zone: Zone) -> Bounded | FixedDelay:
    """Limit a schedule to the block of its text; dates and local times are in the schedule's zone."""
    own = getattr(schedule, "zone", None)
    options = draft.resolve(own if isinstance(own, Zone) else zone)
    if problems := draft.range_problems(options):
        raise ChronexError(tuple(problems))
    return bound(schedule, start=options.from_, end=options.until)
