"""Guess what the author of a wrong text meant, and say what to write instead.

Every function returns a hint for the end of an error message, or an empty text. Hints are guesses: no other
code depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import available_timezones

from punctual.schedules.durations import parse_duration
from punctual.schedules.wall_clock.moments import parse_moment

_MAX_LENGTH = 64
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = re.compile(r"([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?")
_LONG_UNITS = re.compile(r"([0-9]{1,9}) ?(d|h|m|s)[a-z]{2,}")
_REPEATING = re.compile(r"(?:R[0-9]*/)?[0-9]{4}-.*/P.*")
_QUARTZ_FIELDS = 7
_MARK = re.compile(r"L|LW|L-[1-9][0-9]?|[1-9][0-9]?W|\w{1,3}L|\w{1,3}#[1-5]", re.ASCII)
_LOWER_MARK = re.compile(r"l|lw|l-[0-9]+|[0-9]+w")
_SIGNS = {"?": "write * instead of ?", "*": "* stands alone or has a step, as in */5"}


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Propose the known word that is spelled most alike."""
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, 1, 0.6) if len(word) <= _MAX_LENGTH else []
    return f"did you mean {by_lower[near[0]]}?" if near else ""


def for_field(field: str, text: str, names: Sequence[str]) -> str:
    """A hint for a value of a cron field; `names` are the names that the field knows."""
    if text in _SIGNS:
        return _SIGNS[text]
    if field in {"dayOfMonth", "dayOfWeek"} and (hint := _for_mark(field, text)):
        return hint
    if not text.isascii() or not text.isalpha() or not names:
        return ""
    full = [name for name in names if text.upper().startswith(name)]
    return f"did you mean {full[0]}?" if full else did_you_mean(text, names)


def _for_mark(field: str, text: str) -> str:
    if text == "L" and field == "dayOfWeek":
        return "the last Friday of the month is FRIL or 5L"
    if _MARK.fullmatch(text):
        return "L, W and # cannot be part of a list, a range or a step"
    return f"did you mean {text.upper()}?" if _LOWER_MARK.fullmatch(text) else ""


def for_words(words: Sequence[str], aliases: Sequence[str]) -> str:
    """A hint for a text that has neither five nor six fields."""
    if not words:
        return "an example is 0 9 * * MON-FRI"
    if instant := _instant(words):
        return f"for one instant write @once {instant}"
    if len(words) == 1 and _REPEATING.fullmatch(words[0]):
        return "for a repeating interval write iso8601: before it"
    interval = words[1:] if words[0].lower() == "every" else words
    if duration := _duration(" ".join(interval)):
        return f"for an interval write @every {duration}"
    if len(words) == 1:
        return did_you_mean(f"@{words[0]}", aliases)
    return "fields for years do not exist: use {from:…, until:…}" if len(words) == _QUARTZ_FIELDS else ""


def for_instant(words: Sequence[str]) -> str:
    """A hint for the words after `@once`."""
    if not words:
        return "an example is @once 2027-01-01T09:00:00"
    instant = _instant(words)
    return f"write @once {instant}" if instant else ""


def for_interval(words: Sequence[str]) -> str:
    """A hint for the words after `@every`."""
    duration = _duration(" ".join(words))
    return f"write @every {duration}" if duration else for_duration("")


def for_duration(text: str) -> str:
    """A hint for a duration."""
    duration = _duration(text)
    return f"write {duration}" if duration else "durations are written as 30s, 5m, 1h30m or 1d"


@lru_cache(maxsize=256)
def for_zone(name: str) -> str:
    """A hint for the name of a time zone; a city alone is enough to find its zone."""
    zones = sorted(available_timezones())
    cities = {zone.rpartition("/")[2]: zone for zone in zones}
    city = get_close_matches(name[:_MAX_LENGTH].title(), cities, 1, 0.8)
    return f"did you mean {cities[city[0]]}?" if city else did_you_mean(name, zones)


def _instant(words: Sequence[str]) -> str:
    """The words as an instant with date, time and seconds; empty if they are none."""
    date, _, clock = "T".join(words)[:_MAX_LENGTH].partition("T")
    match = _CLOCK.fullmatch(clock or "00:00:00")
    if not match or not _DATE.fullmatch(date):
        return ""
    instant = f"{date}T{match[1]}{match[2] or ':00'}{match[3] or ''}"
    return instant if parse_moment(instant) else ""


def _duration(text: str) -> str:
    """The text as a duration with short units, such as 5m for `5 minutes`; empty if it is none."""
    match = _LONG_UNITS.fullmatch(text[:_MAX_LENGTH].lower())
    short = f"{match[1]}{match[2]}" if match and not match[0].endswith("ms") else text
    return short if len(short) <= _MAX_LENGTH and parse_duration(short) else ""
