"""Parse or validate a Chronex text: compile its draft with a zone and a reference."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple, cast

from punctual.schedules.chronex import error_codes
from punctual.schedules.chronex.expression import (
    CronExpression,
    EveryExpression,
    Expression,
    OnceExpression,
)
from punctual.schedules.chronex.options import NO_OPTIONS, Options
from punctual.schedules.chronex.parser import CronBody, Draft, IntervalBody, OnceBody, parse_draft
from punctual.schedules.durations import format_duration
from punctual.schedules.errors import ChronexError, Problem, UnknownZoneError
from punctual.schedules.utc import shift_instant, utc
from punctual.schedules.wall_clock.moments import format_offset
from punctual.schedules.wall_clock.recurrence import Recurrence
from punctual.schedules.wall_clock.timetable import Pattern, timetable
from punctual.schedules.wall_clock.zones import CHRONEX_FIXED, CHRONEX_INTERVAL, UTC_ZONE, Zone, zone_of

SEARCH_YEARS = 40
_DEFAULTS = Options()
_SECOND = timedelta(seconds=1)


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
    """Parse a text; raise `ChronexError` with all its problems if it has any."""
    if not isinstance(cast("object", text), str):  # the text may come from JSON
        raise ChronexError(parse_draft(text).errors)
    if "@" not in text:
        # A calendar pattern depends on neither: all jobs with the same text share one cached expression.
        reference, trigger_id = None, ""
    elif reference is not None:
        # Before the cache: two passes of a repeated hour are equal as keys.
        reference = utc(reference, "reference")
    return _parse(text, reference, _default_zone(timezone), trigger_id)


def validate(text: str) -> ValidationResult:
    """Return every error and warning of a text; never raises."""
    draft = parse_draft(text)
    if not draft.problems:
        _resolve_options(draft, draft.zone or UTC_ZONE)
    return ValidationResult(draft.errors, draft.warnings)


@lru_cache(maxsize=16_384)
def _parse(text: str, reference: datetime | None, default: Zone | str, trigger_id: str) -> Expression:
    draft = parse_draft(text)
    if draft.zone is None and isinstance(default, str):
        draft.problems.append(error_codes.unknown_zone(default, None))
    zone = draft.zone or (UTC_ZONE if isinstance(default, str) else default)
    options = _resolve_options(draft, zone)
    body = draft.body
    if isinstance(body, OnceBody) and body.moment is None and reference is None:
        draft.problems.append(error_codes.no_reference(body.value, body.position))
    if draft.problems or body is None:
        raise ChronexError(draft.errors, draft.warnings)
    common = _Common(draft, zone, options, trigger_id)
    if isinstance(body, CronBody):
        return _cron(common, body)
    if isinstance(body, IntervalBody):
        return _every(common, body, reference)
    return _once(common, body, reference)


class _Common(NamedTuple):
    """What the three kinds of expression have in common."""

    draft: Draft
    zone: Zone
    options: Options
    trigger_id: str

    def head(self, body: str) -> tuple[str, str, str | None, Zone, Options, str]:
        """The leading fields of every expression; the canonical text is built around the body."""
        declared = self.draft.zone.name if self.draft.zone else None
        canonical = f"TZ={declared} {body}" if declared else body
        if self.draft.options is not NO_OPTIONS:
            canonical = f"{canonical} {{{self.draft.options.canonical}}}"
        return self.draft.text, canonical, declared, self.zone, self.options, self.trigger_id


def _default_zone(timezone: str | tzinfo | None) -> Zone | str:
    """The caller's zone; if there is none, the value that does not name one."""
    if timezone is None:
        return UTC_ZONE
    try:
        return zone_of(timezone)
    except UnknownZoneError as error:
        return error.value


def _resolve_options(draft: Draft, zone: Zone) -> Options:
    if draft.options is NO_OPTIONS:
        return _DEFAULTS
    options = draft.options.resolve(zone)
    draft.problems.extend(draft.options.range_problems(options))
    return options


def _cron(common: _Common, body: CronBody) -> CronExpression:
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
    is_bounded = common.options.from_ is not None or common.options.until is not None
    return CronExpression(*common.head(body.canonical), Recurrence(table, common.zone, rule), is_bounded)


def _every(common: _Common, body: IntervalBody, anchor: datetime | None) -> EveryExpression:
    begin = common.options.from_
    if anchor is None or (begin is not None and begin > anchor):
        anchor = begin
    text = format_duration(body.min_interval)
    if body.min_interval != body.max_interval:
        text = f"{text}-{format_duration(body.max_interval)}"
    return EveryExpression(*common.head(f"@every {text}"), body.min_interval, body.max_interval, anchor)


def _once(common: _Common, body: OnceBody, anchor: datetime | None) -> OnceExpression:
    at = _once_at(common, body, anchor)
    if at is None:
        raise ChronexError((error_codes.bad_once(body.value, body.position),), common.draft.warnings)
    offset = body.moment.offset if body.moment else None
    if offset is None:
        offset = common.zone.offset_at(at)
    text = (at + offset).replace(tzinfo=None).isoformat(timespec="seconds") + format_offset(offset)
    return OnceExpression(*common.head(f"@once {text}"), at)


def _once_at(common: _Common, body: OnceBody, anchor: datetime | None) -> datetime | None:
    """The instant of `@once`, in whole seconds as in the canonical text; None outside the supported years."""
    if body.moment is not None:
        return body.moment.starts(common.zone).replace(microsecond=0)
    at = None if anchor is None else shift_instant(anchor, body.delay)
    # Rounded up, so that it is never early.
    return at if at is None or not at.microsecond else shift_instant(at.replace(microsecond=0), _SECOND)
