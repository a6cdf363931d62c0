"""Derive runs, registrations in force and due minutes from a trace."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from punctual.polling.eligibility import minute_of
from punctual.polling.registrations import Rule
from punctual.schedules.errors import CronCalculationError
from tests.polling.trace import (
    Event,
    InitEnd,
    RunEnd,
    RunStart,
    StopStart,
    Trace,
    UnexpectedShutdown,
)

TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Run:
    """One call of a callback; `end` is None if a crash ended it or it is still running."""

    index: int
    start: RunStart
    end: RunEnd | None
    crash: UnexpectedShutdown | None
    over_index: int | None

    @property
    def failed(self) -> bool:
        return self.end is not None and not self.end.success

    @property
    def over_at(self) -> datetime | None:
        ended = self.end or self.crash
        return ended.at if ended else None


@dataclass(frozen=True)
class Epoch:
    """One task under one unchanged rule; restarts and repeated registrations do not start a new epoch."""

    rule: Rule
    first: int
    since: datetime


@dataclass(frozen=True)
class Active:
    """A period in which a task under one rule must start when it is due."""

    rule: Rule
    first: int
    since: datetime
    until: datetime


class History:
    def __init__(self, trace: Trace) -> None:
        self.events = trace.events
        self.until = trace.until
        self.zone = trace.zone

    def indexed(self, *kinds: type[Event]) -> Iterator[tuple[int, Event]]:
        return ((index, event) for index, event in enumerate(self.events) if isinstance(event, kinds))

    def last_before(self, index: int, *kinds: type[Event]) -> Event | None:
        earlier = [event for event in self.events[:index] if isinstance(event, kinds)]
        return earlier[-1] if earlier else None

    def first_after(self, index: int, *kinds: type[Event]) -> Event | None:
        return next((event for event in self.events[index + 1 :] if isinstance(event, kinds)), None)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        names = {event.task for event in self.events if isinstance(event, RunStart | RunEnd)}
        for event in self.events:
            names |= set(event.registrations) if isinstance(event, InitEnd) else set()
        return tuple(sorted(names))

    @cached_property
    def runs(self) -> dict[str, tuple[Run, ...]]:
        return {task: tuple(self._runs(task)) for task in self.tasks}

    def _runs(self, task: str) -> Iterator[Run]:
        for index, event in enumerate(self.events):
            if isinstance(event, RunStart) and event.task == task:
                yield self._run(index, event)

    def _run(self, index: int, start: RunStart) -> Run:
        """A run ends with the next end of its task or a crash, if that comes before the next start."""
        for at, event in enumerate(self.events[index + 1 :], index + 1):
            match event:
                case RunEnd(task=start.task):
                    return Run(index, start, event, None, at)
                case UnexpectedShutdown():
                    return Run(index, start, None, event, at)
                case RunStart(task=start.task):
                    break
        return Run(index, start, None, None, None)

    def run_before(self, run: Run) -> Run | None:
        earlier = [other for other in self.runs[run.start.task] if other.index < run.index]
        return earlier[-1] if earlier else None

    def open_at(self, index: int) -> list[Run]:
        """Runs that were in progress when the event happened."""
        return [
            run
            for runs in self.runs.values()
            for run in runs
            if run.index < index and (run.over_index is None or run.over_index > index)
        ]

    def epoch(self, task: str, index: int) -> Epoch | None:
        """The rule in force for a task at an event, and since when; None if it is not registered."""
        epoch: Epoch | None = None
        for at, event in enumerate(self.events[: index + 1]):
            if isinstance(event, InitEnd):
                rule = event.registrations.get(task)
                if rule is None:
                    epoch = None
                elif epoch is None or epoch.rule != rule:
                    epoch = Epoch(rule, at, event.at)
        return epoch

    def active_periods(self, task: str) -> Iterator[Active]:
        """From an InitEnd that names the task to a stop, a crash, or an InitEnd that changes its rule."""
        current: tuple[Rule, int, datetime] | None = None
        for index, event in enumerate(self.events):
            rule = event.registrations.get(task) if isinstance(event, InitEnd) else None
            ends = isinstance(event, StopStart | UnexpectedShutdown | InitEnd)
            if current is not None and ends and rule != current[0]:
                yield Active(*current, until=event.at)
                current = None
            if rule is not None and current is None:
                current = rule, index, event.at
        if current is not None:
            yield Active(*current, until=self.until)

    # -- due minutes -----------------------------------------------------------------------------

    def due_within(self, rule: Rule, since: datetime, until: datetime) -> Iterator[datetime]:
        instant = since - TICK
        while (due := self.next_due(rule, instant)) is not None and due <= until:
            yield due
            instant = due

    def next_due(self, rule: Rule, after: datetime) -> datetime | None:
        try:
            return rule.pattern.next_after(after, self.zone)
        except CronCalculationError:
            return None

    def latest_due(self, rule: Rule, at: datetime) -> datetime | None:
        try:
            return rule.pattern.previous_at(at, self.zone)
        except CronCalculationError:
            return None

    # -- why a start was allowed -----------------------------------------------------------------

    def due_pending(self, run: Run, epoch: Epoch) -> bool:
        """A matching minute has come since the last start, and not before the task was registered."""
        due = self.latest_due(epoch.rule, run.start.at)
        if due is None or due < minute_of(epoch.since):
            return False
        starts = [
            other.start.at for other in self.runs[run.start.task] if epoch.first < other.index < run.index
        ]
        return not starts or max(starts) < due

    def retry_pending(self, run: Run, epoch: Epoch) -> bool:
        before = self.run_before(run)
        if before is None or before.end is None or before.end.success or before.over_index is None:
            return False
        waited = run.start.at >= before.end.at + epoch.rule.retry_delay
        return waited and epoch.first < before.over_index < run.index

    def interrupted(self, run: Run) -> bool:
        before = self.run_before(run)
        return before is not None and before.crash is not None
