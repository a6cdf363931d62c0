"""Explain a schedule text: is it valid, what does it mean, when does it fire next?

The caller (a command, a form) reads the clock and prints the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from datetime import timezone as fixed_offset
from itertools import islice

from punctual.schedules.chronex import validate
from punctual.schedules.description import describe
from punctual.schedules.errors import ChronexError, Problem, ScheduleError
from punctual.schedules.findings import Finding, lint
from punctual.schedules.kinds import Schedule, parse, split_kind
from punctual.schedules.utc import LATEST, clamp, rfc3339, utc
from punctual.schedules.wall_clock.zones import Mark, Zone, zone_of

_MARKS = {Mark.AFTER_GAP: "gap", Mark.FIRST_SHOWING: "first pass", Mark.SECOND_SHOWING: "second pass"}


@dataclass(frozen=True, slots=True)
class Fire:
    """One firing: the instant, its local time, and a mark if it is near a daylight saving change."""

    instant: datetime
    local: str
    mark: str

    def to_dict(self) -> dict[str, object]:
        return {"instant": rfc3339(self.instant), "local": self.local, "mark": self.mark}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of `explain`."""

    text: str
    is_valid: bool
    kind: str
    timezone: str
    canonical: str
    description: str
    errors: tuple[Problem, ...]
    warnings: tuple[Finding, ...]
    fires: tuple[Fire, ...]

    def to_dict(self) -> dict[str, object]:
        """Convert to values that JSON can hold."""
        return {
            "text": self.text,
            "is_valid": self.is_valid,
            "kind": self.kind,
            "timezone": self.timezone,
            "canonical": self.canonical,
            "description": self.description,
            "errors": [_problem_dict(problem) for problem in self.errors],
            "warnings": [{"code": item.code, "message": item.message} for item in self.warnings],
            "fires": [fire.to_dict() for fire in self.fires],
        }


def explain(
    text: str,
    *,
    after: datetime,
    timezone: str | tzinfo | None = None,
    count: int = 10,
    trigger_id: str = "",
) -> Explanation:
    """Explain a text. Bad text does not raise: its errors are part of the result."""
    after = clamp(utc(after, "after"))
    try:
        kind, body = split_kind(text)
        schedule = parse(text, reference=after, timezone=timezone, trigger_id=trigger_id)
        zone = _zone(schedule, timezone)
    except ScheduleError as error:
        return _invalid_explanation(text, error)
    warnings = [Finding(item.code, item.message) for item in _parser_warnings(kind, body)]
    fires = islice(schedule.between(after, LATEST), max(count, 0))
    return Explanation(
        text,
        is_valid=True,
        kind=kind,
        timezone=zone.name,
        canonical=str(schedule),
        description=describe(schedule),
        errors=(),
        warnings=(*warnings, *lint(schedule, reference=after)),
        fires=tuple(_fire(instant, zone) for instant in fires),
    )


def _invalid_explanation(text: str, error: ScheduleError) -> Explanation:
    return Explanation(
        text,
        is_valid=False,
        kind="",
        timezone="",
        canonical="",
        description="",
        errors=_problems(error),
        warnings=(),
        fires=(),
    )


def _zone(schedule: Schedule, timezone: str | tzinfo | None) -> Zone:
    """The schedule's own zone; a custom kind without one is shown in the caller's."""
    zone = getattr(schedule, "zone", None)
    return zone if isinstance(zone, Zone) else zone_of(timezone or "UTC")


def _parser_warnings(kind: str, body: str) -> tuple[Problem, ...]:
    return validate(body).warnings if kind == "chronex" else ()


def _fire(instant: datetime, zone: Zone) -> Fire:
    shift, mark = zone.offset_at(instant), zone.mark_at(instant)
    local = (instant + shift).replace(tzinfo=fixed_offset(shift)).isoformat()
    return Fire(instant, local, "" if mark is None else _MARKS[mark])


def _problems(error: ScheduleError) -> tuple[Problem, ...]:
    if isinstance(error, ChronexError):
        return error.errors
    name = type(error).__name__
    return (Problem(name, error.field, error.message, error.value, error.position),)


def _problem_dict(problem: Problem) -> dict[str, object]:
    return {
        "code": problem.code,
        "field": problem.field,
        "message": problem.message,
        "value": problem.value,
        "position": problem.position,
    }
