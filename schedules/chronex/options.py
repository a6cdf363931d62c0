"""Parse the options block of a Chronex text: `{jitter:30s, max:5}`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from punctual.schedules.chronex import error_codes
from punctual.schedules.durations import format_duration, parse_duration
from punctual.schedules.errors import Problem
from punctual.schedules.text import BLANKS
from punctual.schedules.wall_clock.moments import Moment, parse_moment
from punctual.schedules.wall_clock.zones import Zone

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_TAGS = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\+[A-Za-z][A-Za-z0-9_-]*)*")
_DURATIONS = ("jitter", "stagger", "window")
_MOMENTS = ("from", "until")
KEYS = (*_DURATIONS, *_MOMENTS, "max", "tag")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an expression; zero or None if not given."""

    jitter: timedelta = timedelta()
    stagger: timedelta = timedelta()
    window: timedelta | None = None
    from_: datetime | None = None
    until: datetime | None = None
    max: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class OptionsDraft:
    """Options before the zone is known: values and positions by key, and the problems."""

    durations: dict[str, timedelta]
    moments: dict[str, Moment]
    positions: dict[str, int]
    problems: list[Problem]
    warnings: list[Problem]
    max: int | None = None
    tags: tuple[str, ...] = ()

    def resolve(self, zone: Zone) -> Options:
        starts, ends = self.moments.get("from"), self.moments.get("until")
        return Options(
            jitter=self.durations.get("jitter", timedelta()),
            stagger=self.durations.get("stagger", timedelta()),
            window=self.durations.get("window"),
            from_=starts.starts(zone) if starts else None,
            until=ends.ends(zone) if ends else None,
            max=self.max,
            tags=self.tags,
        )

    def range_problems(self, options: Options) -> list[Problem]:
        """The problem of a range that holds no instant, if it is one."""
        if not options.from_ or not options.until or options.from_ < options.until:
            return []
        return [error_codes.empty_range(self.moments["from"].canonical, self.positions["from"])]

    @property
    def canonical(self) -> str:
        values = {key: format_duration(value) for key, value in self.durations.items()}
        values |= {key: moment.canonical for key, moment in self.moments.items()}
        if self.max is not None:
            values["max"] = str(self.max)
        if self.tags:
            values["tag"] = "+".join(self.tags)
        return ", ".join(f"{key}:{values[key]}" for key in sorted(values))


NO_OPTIONS = OptionsDraft({}, {}, {}, [], [])


def parse_options(block: str, position: int) -> OptionsDraft:
    """Parse the text between the braces, which starts at the given position of the expression."""
    draft = OptionsDraft({}, {}, {}, [], [])
    for key, key_at, value, value_at in read_pairs(block, position):
        if key not in KEYS:
            draft.problems.append(error_codes.unknown_option(key, key_at, KEYS))
        elif key in draft.positions:
            draft.problems.append(error_codes.structure(f"options: duplicate option '{key}'", key, key_at))
        else:
            draft.positions[key] = value_at
            _read(draft, key, value, value_at)
    return draft


def read_pairs(block: str, position: int) -> Iterator[tuple[str, int, str, int]]:
    """Yield key, position of the key, value, position of the value."""
    for part in block.split(","):
        key, _, value = part.partition(":")
        key_at = position + len(key) - len(key.lstrip(BLANKS))
        value_at = position + len(part) - len(value.lstrip(BLANKS))
        yield key.strip(BLANKS), key_at, value.strip(BLANKS), value_at
        position += len(part) + 1


def _read(draft: OptionsDraft, key: str, value: str, at: int) -> None:
    if key in _DURATIONS:
        _read_duration(draft, key, value, at)
    elif key in _MOMENTS:
        moment = parse_moment(value)
        if moment is None:
            draft.problems.append(error_codes.bad_option(key, "date/datetime", value, at))
        else:
            draft.moments[key] = moment
    elif key == "max":
        _read_max(draft, value, at)
    else:
        _read_tags(draft, value, at)


def _read_duration(draft: OptionsDraft, key: str, value: str, at: int) -> None:
    duration = parse_duration(value)
    if duration is None:
        draft.problems.append(error_codes.bad_option(key, "duration", value, at))
    elif not duration and key != "jitter":
        draft.problems.append(error_codes.not_positive(key, value, at))
    else:
        draft.durations[key] = duration


def _read_max(draft: OptionsDraft, value: str, at: int) -> None:
    if not _INTEGER.fullmatch(value):
        draft.problems.append(error_codes.bad_option("max", "integer", value, at))
    elif int(value) <= 0:
        draft.problems.append(error_codes.bad_max(value, at))
    else:
        draft.max = int(value)


def _read_tags(draft: OptionsDraft, value: str, at: int) -> None:
    if not _TAGS.fullmatch(value):
        draft.problems.append(error_codes.bad_option("tag", "string", value, at))
        return
    seen: set[str] = set()
    for tag in value.split("+"):
        if tag in seen:
            draft.warnings.append(error_codes.duplicate_tag(tag, at))
        seen.add(tag)
        at += len(tag) + 1
    draft.tags = tuple(value.split("+"))
