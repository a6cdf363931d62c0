"""A Chronex text, a reference and a zone in -> an expression out, or all that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple, cast

from schedules.chronex import problems as found
from schedules.chronex.expression import (
    CronExpression,
    EveryExpression,
    Expression,
    OnceExpression,
)
from schedules.chronex.options import NO_OPTIONS, Options
from schedules.chronex.parser import CronBody, Draft, EveryBody, OnceBody, read
from schedules.durations import format_duration
from schedules.errors import ChronexError, Problem, UnknownZoneError
from schedules.instants import shifted, utc
from schedules.moments import format_offset
from schedules.recurrence import Recurrence
from schedules.timetable import Pattern, timetable
from schedules.zones import CHRONEX_FIXED, CHRONEX_INTERVAL, UTC_ZONE, Zone, zone_of

SEARCH_YEARS = 40
_DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class ValidationResult:
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    @property
    def is_valid(self) -> bool:
        return not self.errors


def parse(
    text: str,
    *,
    reference: datetime | None = None,
    timezone: str | tzinfo | None = None,
    trigger_id: str = "",
) -> Expression:
    """The expression a text stands for; ChronexError with every problem otherwise."""
    if not isinstance(cast("object", text), str):  # callers pass on what they read from JSON
        raise ChronexError(read(text).errors)
    if "@" not in text:
        # A calendar pattern depends on neither, so all jobs with the same text share one expression.
        reference, trigger_id = None, ""
    return _parse(text, reference, timezone, trigger_id)


def validate(text: str) -> ValidationResult:
    """Every error and warning of a text; never raises."""
    draft = read(text)
    if not draft.problems:
        _resolve_options(draft, draft.zone or UTC_ZONE)
    return ValidationResult(draft.errors, draft.warnings)


@lru_cache(maxsize=16_384)
def _parse(
    text: str, reference: datetime | None, timezone: str | tzinfo | None, trigger_id: str
) -> Expression:
    draft = read(text)
    zone = draft.zone or _default_zone(timezone, draft)
    options = _resolve_options(draft, zone)
    body = draft.body
    if isinstance(body, OnceBody) and body.moment is None and reference is None:
        draft.problems.append(found.no_reference(body.value, body.position))
    if draft.problems or body is None:
        raise ChronexError(draft.errors, draft.warnings)
    anchor = None if reference is None else utc(reference, "reference")
    made = _Setting(draft, zone, options, trigger_id)
    if isinstance(body, CronBody):
        return _cron(made, body)
    if isinstance(body, EveryBody):
        return _every(made, body, anchor)
    return _once(made, body, anchor)


class _Setting(NamedTuple):
    """What all three kinds of expression have in common."""

    draft: Draft
    zone: Zone
    options: Options
    trigger_id: str

    def head(self, body: str) -> tuple[str, str, str | None, Zone, Options, str]:
        """The leading values of every expression, with the canonical text built around the body."""
        declared = self.draft.zone.name if self.draft.zone else None
        canonical = f"TZ={declared} {body}" if declared else body
        if self.draft.options is not NO_OPTIONS:
            canonical = f"{canonical} {{{self.draft.options.canonical}}}"
        return self.draft.text, canonical, declared, self.zone, self.options, self.trigger_id


def _default_zone(timezone: str | tzinfo | None, draft: Draft) -> Zone:
    if timezone is None:
        return UTC_ZONE
    try:
        return zone_of(timezone)
    except UnknownZoneError as error:
        draft.problems.append(found.unknown_zone(error.value, None))
        return UTC_ZONE


def _resolve_options(draft: Draft, zone: Zone) -> Options:
    if draft.options is NO_OPTIONS:
        return _DEFAULTS
    options = draft.options.resolve(zone)
    if options.from_ and options.until and options.from_ >= options.until:
        position = draft.options.positions["from"]
        value = draft.options.moments["from"].canonical
        draft.problems.append(found.empty_range(value, position))
    return options


def _cron(made: _Setting, body: CronBody) -> CronExpression:
    pattern = Pattern(
        body.second.mask,
        body.minute.mask,
        body.hour.mask,
        body.month_days.rule,
        body.month.mask,
        body.week_days.rule,
    )
    table = timetable(pattern, SEARCH_YEARS)
    is_interval = body.second.is_interval or body.minute.is_interval or body.hour.is_interval
    rule = CHRONEX_INTERVAL if is_interval else CHRONEX_FIXED
    is_bounded = made.options.from_ is not None or made.options.until is not None
    return CronExpression(*made.head(body.canonical), Recurrence(table, made.zone, rule), is_bounded)


def _every(made: _Setting, body: EveryBody, anchor: datetime | None) -> EveryExpression:
    begin = made.options.from_
    if anchor is None or (begin is not None and begin > anchor):
        anchor = begin
    text = format_duration(body.shortest)
    if body.shortest != body.longest:
        text = f"{text}-{format_duration(body.longest)}"
    return EveryExpression(*made.head(f"@every {text}"), body.shortest, body.longest, anchor)


def _once(made: _Setting, body: OnceBody, anchor: datetime | None) -> OnceExpression:
    at = _once_at(made, body, anchor)
    if at is None:
        raise ChronexError((found.bad_once(body.value, body.position),), made.draft.warnings)
    offset = body.moment.offset if body.moment else None
    shown = made.zone.offset_at(at) if offset is None else offset
    text = (at + shown).replace(tzinfo=None).isoformat(timespec="seconds") + format_offset(shown)
    return OnceExpression(*made.head(f"@once {text}"), at)


def _once_at(made: _Setting, body: OnceBody, anchor: datetime | None) -> datetime | None:
    """None where the instant lies outside the supported years."""
    if body.moment is not None:
        return body.moment.starts(made.zone)
    return None if anchor is None else shifted(anchor, body.delay)
