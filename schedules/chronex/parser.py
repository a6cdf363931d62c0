"""Parse a Chronex text into a draft: body, zone, options, and every problem with its position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from punctual.schedules import suggestions
from punctual.schedules.chronex import error_codes
from punctual.schedules.chronex.day_fields import (
    MonthDayField,
    WeekDayField,
    parse_month_days,
    parse_week_days,
)
from punctual.schedules.chronex.numeric_fields import HOUR, MINUTE, MONTH, SECOND, Field, parse_field
from punctual.schedules.chronex.options import NO_OPTIONS, OptionsDraft, parse_options
from punctual.schedules.durations import format_duration, parse_duration
from punctual.schedules.errors import Problem, UnknownZoneError
from punctual.schedules.text import MAX_LENGTH, clip
from punctual.schedules.wall_clock.moments import Moment, parse_moment
from punctual.schedules.wall_clock.zones import Zone, find_zone

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_TOKEN = re.compile(r"[^\x09-\x0d\x1c-\x20]+")
_BLANK = " \t\n\v\f\r\x1c\x1d\x1e\x1f"
_SECOND_ZERO = Field(1, "", is_interval=False)


class CronBody(NamedTuple):
    second: Field
    minute: Field
    hour: Field
    month_days: MonthDayField
    month: Field
    week_days: WeekDayField
    canonical: str


@dataclass(frozen=True, slots=True)
class IntervalBody:
    min_interval: timedelta
    max_interval: timedelta


@dataclass(frozen=True, slots=True)
class OnceBody:
    """An absolute moment, or a delay from the reference."""

    moment: Moment | None
    delay: timedelta
    value: str
    position: int


Body = CronBody | IntervalBody | OnceBody


@dataclass(slots=True)
class Draft:
    """A parsed text, before `compiler` resolves it with a zone and a reference."""

    text: str
    zone: Zone | None
    body: Body | None
    options: OptionsDraft
    problems: list[Problem]

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(sorted(self.problems, key=lambda item: item.position or 0))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        body, warnings = self.body, tuple(self.options.warnings)
        if isinstance(body, OnceBody) and body.moment is not None and body.moment.wall.microsecond:
            return (error_codes.dropped_fraction(body.value, body.position), *warnings)
        return warnings


class Tokens:
    """The words of a text; positions are computed only when a problem needs them."""

    __slots__ = ("_head", "skipped", "texts")

    def __init__(self, head: str) -> None:
        self._head = head
        # On ASCII, `split` gives the same words and is several times faster.
        self.texts = head.split() if head.isascii() else _TOKEN.findall(head)
        self.skipped = 0

    def skip(self) -> str:
        self.skipped += 1
        return self.texts.pop(0)

    def position(self, index: int) -> int:
        """Where a word starts; the index after the last word gives the end of the text."""
        starts = [match.start() for match in _TOKEN.finditer(self._head)]
        return [*starts, len(self._head)][index + self.skipped]


def parse_draft(text: object) -> Draft:
    """Parse a text; never raises, all problems are in the draft."""
    if not isinstance(text, str):
        return _rejected_draft("", error_codes.structure("expected a text", repr(type(text))))
    if len(text) > MAX_LENGTH:
        return _rejected_draft(text, error_codes.structure(f"longer than {MAX_LENGTH} characters", text))
    problems: list[Problem] = []
    head, options = _split_options(text, problems)
    tokens = Tokens(head)
    zone = None
    if tokens.texts and tokens.texts[0].startswith("TZ="):
        zone = _zone(tokens, problems)
    body = _body(tokens, problems)
    problems.extend(options.problems)
    draft = Draft(text, zone, body, options, problems)
    if isinstance(body, IntervalBody):
        _compare_with_interval(options, body.min_interval)
    return draft


def _rejected_draft(text: str, problem: Problem) -> Draft:
    return Draft(text, None, None, NO_OPTIONS, [problem])


def _split_options(text: str, problems: list[Problem]) -> tuple[str, OptionsDraft]:
    """Split off the options block and parse it."""
    opening, closing = text.find("{"), text.find("}")
    if opening < 0 and closing < 0:
        return text, NO_OPTIONS
    reason, at = _brace_error(text, opening, closing) or _block_error(text, opening, closing)
    if reason:
        problems.append(error_codes.structure(reason, text[at:], at))
        return text[: opening if opening >= 0 else closing], NO_OPTIONS
    return text[:opening], parse_options(text[opening + 1 : closing], opening + 1)


def _brace_error(text: str, opening: int, closing: int) -> tuple[str, int] | None:
    if opening < 0 or 0 <= closing < opening:
        return "options: '}' without '{'", closing
    if closing < 0:
        return "options: '{' without '}'", opening
    if "{" in text[opening + 1 : closing]:
        return "options: braces do not nest", text.find("{", opening + 1)
    return None


def _block_error(text: str, opening: int, closing: int) -> tuple[str, int]:
    if text[closing + 1 :].strip(_BLANK):
        return "options: text after '}'", closing + 1
    if not text[opening + 1 : closing].strip(_BLANK):
        return "options: empty block", opening
    if opening and text[opening - 1] not in _BLANK:
        return "options: expected a space before '{'", opening
    return "", 0


def _zone(tokens: Tokens, problems: list[Problem]) -> Zone | None:
    position = tokens.position(0) + 3
    name = tokens.skip()[3:]
    try:
        return find_zone(name)
    except UnknownZoneError:
        problems.append(error_codes.unknown_zone(name, position, suggestions.for_zone(name)))
        return None


def _body(tokens: Tokens, problems: list[Problem]) -> Body | None:
    texts = tokens.texts
    if texts and texts[0].startswith("@"):
        return _alias_body(tokens, problems)
    if len(texts) not in {5, 6}:
        hint = suggestions.for_words(texts, tuple(ALIASES))
        problems.append(error_codes.field_count(len(texts), " ".join(texts), tokens.position(0), hint))
        return None
    return _cron(texts, tokens, problems)


def _alias_body(tokens: Tokens, problems: list[Problem]) -> Body | None:
    texts, mark = tokens.texts, tokens.texts[0].lower()
    takes_value = mark in {"@every", "@once"}
    if mark not in ALIASES and not takes_value:
        reason = f"unknown alias '{clip(texts[0])}'"
        hint = suggestions.did_you_mean(mark, ("@every", "@once", *ALIASES))
        problems.append(error_codes.structure(reason, texts[0], tokens.position(0), hint))
        return None
    expected = 2 if takes_value else 1
    if extra := texts[expected:]:
        reason = f"unexpected text '{clip(extra[0])}'"
        problems.append(error_codes.structure(reason, extra[0], tokens.position(expected)))
    if not takes_value:
        return _cron(ALIASES[mark].split(), tokens, problems)
    reader = _every if mark == "@every" else _once
    return reader(texts[1:], tokens.position(1), problems)


def _cron(texts: list[str], tokens: Tokens, problems: list[Problem]) -> CronBody:
    *seconds, minute, hour, month_days, month, week_days = texts
    second = parse_field(SECOND, seconds[0]) if seconds else _SECOND_ZERO
    body = (
        parse_field(MINUTE, minute),
        parse_field(HOUR, hour),
        parse_month_days(month_days),
        parse_field(MONTH, month),
        parse_week_days(week_days),
    )
    fields: tuple[Field | MonthDayField | WeekDayField, ...] = (second, *body) if seconds else body
    for index, field in enumerate(fields):
        if field.problems:
            start = tokens.position(index)
            problems.extend(problem.move_by(start) for problem in field.problems)
    return CronBody(second, *body, " ".join([field.canonical for field in fields]))


def _every(words: list[str], position: int, problems: list[Problem]) -> IntervalBody | None:
    value = words[0] if words else ""
    low, dash, high = value.partition("-")
    min_interval = parse_duration(low)
    max_interval = parse_duration(high) if dash else min_interval
    if not min_interval or not max_interval:
        problems.append(error_codes.bad_every(value, position, suggestions.for_interval(words)))
        return None
    if dash and min_interval >= max_interval:
        problems.append(error_codes.bad_every_range(value, position))
    return IntervalBody(min_interval, max_interval)


def _once(words: list[str], position: int, problems: list[Problem]) -> OnceBody | None:
    value = words[0] if words else ""
    if value.startswith("+"):
        delay = parse_duration(value[1:])
        if delay:
            return OnceBody(None, delay, value, position)
        problems.append(error_codes.bad_relative_once(value, position))
        return None
    moment = parse_moment(value)
    if moment is None or moment.is_date:
        problems.append(error_codes.bad_once(value, position, suggestions.for_instant(words)))
        return None
    return OnceBody(moment, timedelta(), value, position)


def _compare_with_interval(options: OptionsDraft, interval: timedelta) -> None:
    """Warn about jitter and stagger that are long for `@every`; cron has no single interval to compare."""
    jitter, stagger = options.durations.get("jitter"), options.durations.get("stagger")
    if jitter and jitter * 2 > interval:
        text = format_duration(jitter)
        options.warnings.append(error_codes.large_jitter(text, options.positions["jitter"]))
    if stagger and stagger > interval:
        text = format_duration(stagger)
        options.warnings.append(error_codes.large_stagger(text, options.positions["stagger"]))
