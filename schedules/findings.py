"""Lint a valid schedule: report what its author probably did not intend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

from punctual.schedules.bounds import Bounded
from punctual.schedules.chronex.expression import CronExpression, Expression
from punctual.schedules.durations import format_duration
from punctual.schedules.kinds import Schedule
from punctual.schedules.krontab import Krontab
from punctual.schedules.posix import ZonedPosixCron
from punctual.schedules.utc import LATEST
from punctual.schedules.wall_clock.recurrence import Recurrence

_REFERENCE = datetime(2000, 1, 1, tzinfo=UTC)
# The densest minute and the shortest step show within a year; rare schedules are sampled beyond it, but not
# for centuries.
_MAX_FIRES, _MIN_FIRES = 500, 3
_SAMPLED = timedelta(days=400)
_MAX_GAP_FIRES = 12


@dataclass(frozen=True, slots=True)
class Finding:
    """A stable code for programs and a sentence for people."""

    code: str
    message: str


def lint(
    schedule: Schedule, *, reference: datetime | None = None, max_per_minute: int = 6
) -> tuple[Finding, ...]:
    """Check a sample of the firings after the reference."""
    begin = reference or _REFERENCE
    return tuple(_findings(schedule, begin, _sample(schedule, begin), max_per_minute))


def _sample(schedule: Schedule, begin: datetime) -> list[datetime]:
    fires: list[datetime] = []
    for fire in islice(schedule.between(begin, LATEST), _MAX_FIRES):
        fires.append(fire)
        if len(fires) >= _MIN_FIRES and fire - fires[0] > _SAMPLED:
            break
    return fires


def _findings(
    schedule: Schedule, begin: datetime, fires: list[datetime], max_per_minute: int
) -> Iterator[Finding]:
    recurrence = _recurrence(schedule)
    if recurrence is not None and _fires_only_in_gaps(recurrence, begin):
        yield Finding("only_in_gap", "every time it names falls into a daylight saving gap")
    if not fires:
        yield Finding("never_fires", "it never fires")
        return
    count = _most_per_minute(fires)
    if count > max_per_minute:
        yield Finding("too_often", f"it fires {count} times a minute, more than {max_per_minute}")
    step = min((later - sooner for sooner, later in pairwise(fires)), default=None)
    if isinstance(schedule, Expression) and step is not None:
        yield from _compare_with_step(schedule, step)


def _compare_with_step(expression: Expression, step: timedelta) -> Iterator[Finding]:
    options, step_text = expression.options, format_duration(step)
    if options.window is not None and options.window < step:
        window = format_duration(options.window)
        message = f"window {window} is shorter than the step {step_text}: a start that is late is skipped"
        yield Finding("window_shorter_than_step", message)
    for name, delay in (("jitter", options.jitter), ("stagger", options.stagger)):
        if delay > step:
            message = (
                f"{name} {format_duration(delay)} is longer than the step {step_text}: starts change order"
            )
            yield Finding(f"{name}_beyond_interval", message)


def _recurrence(schedule: Schedule) -> Recurrence | None:
    """The calendar pattern inside a schedule, or None."""
    if isinstance(schedule, Bounded):
        return _recurrence(schedule.inner)
    if isinstance(schedule, Krontab):
        return _recurrence(schedule.cron)
    return schedule.recurrence if isinstance(schedule, CronExpression | ZonedPosixCron) else None


def _fires_only_in_gaps(recurrence: Recurrence, begin: datetime) -> bool:
    wall: datetime | None = begin
    for _ in range(_MAX_GAP_FIRES):
        wall = wall and recurrence.table.after(wall)
        placed = wall and recurrence.zone.place(wall)
        if not placed or not placed.in_gap:
            return False
    return True


def _most_per_minute(fires: list[datetime]) -> int:
    return max(Counter(fire.replace(second=0, microsecond=0) for fire in fires).values())
