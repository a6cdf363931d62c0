"""Explain a schedule text: is it valid, what does it mean, when does it fire next?

The caller (a command, a form) reads the clock and prints the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from datetime import timezone as fixed_offset
from itertools import islice
from typing import NamedTuple

from punctual.schedules.bounds import unbounded
from punctual.schedules.chronex import Expression, validate
from punctual.schedules.delay import FixedDelay
from punctual.schedules.description import describe
from punctual.schedules.errors import ChronexError, Problem, ScheduleError
from punctual.schedules.findings import Finding, lint
from punctual.schedules.kinds import Schedule, parse, split_kind
from punctual.schedules.krontab import Krontab
from punctual.schedules.utc import LATEST, clamp, rfc3339, utc
from punctual.schedules.wall_clock.zones import Mark, Zone, zone_of

_MARKS = {Mark.AFTER_GAP: "gap", Mark.FIRST_SHOWING: "first pass", Mark.SECOND_SHOWING: "second pass"}


class Start(NamedTuple):
    """When an occurrence starts; `refusal` says why it does not."""

    at: datetime
    refusal: str = ""


# What decides when the occurrence of a nominal time starts; it depends on the trigger and its settings.
Starts = Callable[[Schedule, datetime], Start]


@dataclass(frozen=True, slots=True)
class Trigger:
    """For whom a text is explained: a trigger draws intervals, stagger and jitter of its own.

    `reference` is what intervals count from, by default the instant asked about; `starts` decides start
    times; `starts_left` is what remains of `max` if it has started before.
    """

    id: str = ""
    reference: datetime | None = None
    starts: Starts | None = None
    starts_left: int | None = None


ANY_TRIGGER = Trigger()


@dataclass(frozen=True, slots=True)
class Fire:
    """One firing: the nominal instant, its local time, and a mark if it is near a daylight saving change.

    `start` is None where it depends on the trigger, and no trigger is given.
    """

    instant: datetime
    local: str
    mark: str
    start: Start | None = None

    def to_dict(self) -> dict[str, object]:
        return {
            "instant": rfc3339(self.instant),
            "local": self.local,
            "mark": self.mark,
            "starts_at": None if self.start is None or self.start.refusal else rfc3339(self.start.at),
            "refusal": "" if self.start is None else self.start.refusal,
        }


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

    @property
    def legend(self) -> dict[str, str]:
        """The meaning of each mark that the fires have."""
        used = {fire.mark for fire in self.fires}
        return {name: mark.value for mark, name in _MARKS.items() if name in used}

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
            "legend": self.legend,
        }


def explain(
    text: str,
    *,
    after: datetime,
    timezone: str | tzinfo | None = None,
    count: int = 10,
    trigger: Trigger = ANY_TRIGGER,
) -> Explanation:
    """Explain a text. Bad text does not raise: its errors are part of the result."""
    after = clamp(utc(after, "after"))
    try:
        kind, body = split_kind(text)
        reference = trigger.reference or after
        schedule = parse(text, reference=reference, timezone=timezone, trigger_id=trigger.id)
        zone = _zone(schedule, timezone)
        # A custom kind is code of the caller: its contract is checked as its instants are listed.
        instants = islice(schedule.between(after, LATEST), max(count, 0))
        fires = tuple(_fires(schedule, instants, zone, trigger))
        findings = (*_parser_warnings(kind, body), *_notes(schedule), *lint(schedule, reference=after))
    except ScheduleError as error:
        return _invalid_explanation(text, error)
    return Explanation(
        text,
        is_valid=True,
        kind=kind,
        timezone=zone.name,
        canonical=str(schedule),
        description=describe(schedule),
        errors=(),
        warnings=findings,
        fires=fires,
    )


def _fires(schedule: Schedule, instants: Iterable[datetime], zone: Zone, trigger: Trigger) -> Iterator[Fire]:
    """The firings, as far as `max` allows starts; a refused one does not count as a start."""
    starts, left = trigger.starts or _known_start, trigger.starts_left
    if left is None and isinstance(schedule, Expression):
        left = schedule.options.max
    for instant in instants:
        if left == 0:
            return
        start = starts(schedule, instant)
        if left is not None and not (start and start.refusal):
            left -= 1
        yield _fire(instant, zone, start)


def _known_start(schedule: Schedule, nominal: datetime) -> Start | None:
    """The start if it is the same for every trigger: without stagger, jitter and a window of starts."""
    schedule = unbounded(schedule)
    if isinstance(schedule, Krontab):
        if schedule.spread.window_duration:
            return None
        refused = schedule.decide("any", nominal).unschedulable
        return Start(nominal, "unschedulable" if refused else "")
    if isinstance(schedule, Expression) and (schedule.options.stagger or schedule.options.jitter):
        return None
    return Start(nominal)


def _notes(schedule: Schedule) -> Iterator[Finding]:
    """What the list of fires cannot show."""
    inner = unbounded(schedule)
    if isinstance(schedule, FixedDelay):
        yield Finding("estimated", "the fires assume that every run takes no time")
    if isinstance(inner, Krontab) and inner.policy.suspend:
        yield Finding("suspended", "its policy says suspend=true: every occurrence is skipped")


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


def _parser_warnings(kind: str, body: str) -> Iterator[Finding]:
    warnings = validate(body).warnings if kind == "chronex" else ()
    return (Finding(item.code, item.message) for item in warnings)


def _fire(instant: datetime, zone: Zone, start: Start | None) -> Fire:
    shift, mark = zone.offset_at(instant), zone.mark_at(instant)
    local = (instant + shift).replace(tzinfo=fixed_offset(shift)).isoformat()
    return Fire(instant, local, "" if mark is None else _MARKS[mark], start)


def _problems(error: ScheduleError) -> tuple[Problem, ...]:
    if isinstance(error, ChronexError):
        return error.errors
    name = type(error).__name__
    return (Problem(name, error.field, error.message, error.value, error.position, error.hint),)


def _problem_dict(problem: Problem) -> dict[str, object]:
    return {
        "code": problem.code,
        "field": problem.field,
        "message": problem.message,
        "value": problem.value,
        "position": problem.position,
        "hint": problem.hint,
    }
