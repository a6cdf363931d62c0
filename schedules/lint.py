"""A valid schedule in -> what its author probably did not mean out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

from schedules.bounds import Bounded
from schedules.chronex.expression import CronExpression, Expression
from schedules.durations import format_duration
from schedules.instants import LATEST
from schedules.krontab import Krontab
from schedules.posix import ZonedPosixCron
from schedules.recurrence import Recurrence
from schedules.registry import Schedule

_REFERENCE = datetime(2000, 1, 1, tzinfo=UTC)
_SAMPLE = 500
_GAP_SAMPLE = 12


@dataclass(frozen=True, slots=True)
class Finding:
    """A stable code for programs and a sentence for people."""

    code: str
    message: str


def lint(
    schedule: Schedule, *, reference: datetime | None = None, max_per_minute: int = 6
) -> tuple[Finding, ...]:
    """Findings on the firings after the reference; a sample of them stands for all."""
    begin = reference or _REFERENCE
    fires = list(islice(schedule.between(begin, LATEST), _SAMPLE))
    return tuple(_findings(schedule, begin, fires, max_per_minute))


def _findings(
    schedule: Schedule, begin: datetime, fires: list[datetime], max_per_minute: int
) -> Iterator[Finding]:
    recurrence = _recurrence(schedule)
    if recurrence is not None and _fires_only_in_gaps(recurrence, begin):
        yield Finding("only_in_gap", "every time it names falls into a daylight saving gap")
    if not fires:
        yield Finding("never_fires", "it never fires")
        return
    crowd = _most_per_minute(fires)
    if crowd > max_per_minute:
        yield Finding("too_often", f"it fires {crowd} times a minute, more than {max_per_minute}")
    step = min((later - sooner for sooner, later in pairwise(fires)), default=None)
    if isinstance(schedule, Expression) and step is not None:
        yield from _against_step(schedule, step)


def _against_step(expression: Expression, step: timedelta) -> Iterator[Finding]:
    options, shown = expression.options, format_duration(step)
    if options.window is not None and options.window < step:
        window = format_duration(options.window)
        message = f"window {window} is shorter than the step {shown}: a late start is lost, not made up"
        yield Finding("window_shorter_than_step", message)
    for name, delay in (("jitter", options.jitter), ("stagger", options.stagger)):
        if delay > step:
            message = f"{name} {format_duration(delay)} is longer than the step {shown}: starts change order"
            yield Finding(f"{name}_beyond_interval", message)


def _recurrence(schedule: Schedule) -> Recurrence | None:
    """The calendar pattern inside a schedule, if there is one."""
    if isinstance(schedule, Bounded):
        return _recurrence(schedule.inner)
    if isinstance(schedule, Krontab):
        return _recurrence(schedule.cron)
    return schedule.recurrence if isinstance(schedule, CronExpression | ZonedPosixCron) else None


def _fires_only_in_gaps(recurrence: Recurrence, begin: datetime) -> bool:
    wall: datetime | None = begin
    for _ in range(_GAP_SAMPLE):
        wall = wall and recurrence.table.after(wall)
        placed = wall and recurrence.zone.place(wall)
        if not placed or not placed.in_gap:
            return False
    return True


def _most_per_minute(fires: list[datetime]) -> int:
    return max(Counter(fire.replace(second=0, microsecond=0) for fire in fires).values())
