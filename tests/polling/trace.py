"""Record the events of a scheduler with their times: the input of the temporal properties."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from punctual.polling.registrations import Rule
from punctual.polling.scheduler_events import Facts, SchedulerEvent


@dataclass(frozen=True)
class InitStart:
    at: datetime


@dataclass(frozen=True)
class InitEnd:
    at: datetime
    registrations: Mapping[str, Rule]


@dataclass(frozen=True)
class StopStart:
    at: datetime


@dataclass(frozen=True)
class StopEnd:
    at: datetime


@dataclass(frozen=True)
class RunStart:
    at: datetime
    task: str


@dataclass(frozen=True)
class RunEnd:
    at: datetime
    task: str
    success: bool


@dataclass(frozen=True)
class UnexpectedShutdown:
    at: datetime


Event = InitStart | InitEnd | StopStart | StopEnd | RunStart | RunEnd | UnexpectedShutdown


@dataclass(frozen=True)
class Trace:
    """Events in order, observed up to `until`; cron fields are local time in `zone`."""

    events: tuple[Event, ...]
    until: datetime
    zone: str = "UTC"

    def __post_init__(self) -> None:
        times = [event.at for event in self.events]
        if times != sorted(times) or (times and times[-1] > self.until):
            raise ValueError("events must be in order of time, none after the end of observation")


class Recorder:
    """A listener that records a trace; events at the same instant stay in order."""

    def __init__(self, clock: Callable[[], datetime], *, zone: str = "UTC") -> None:
        self._clock = clock
        self._zone = zone
        self.names: list[SchedulerEvent] = []
        self.events: list[Event] = []

    def __call__(self, event_name: SchedulerEvent, facts: Facts) -> None:
        self.names.append(event_name)
        task = str(facts.get("task", ""))
        match event_name:
            case SchedulerEvent.INITIALIZATION_STARTED | SchedulerEvent.REINITIALIZATION_STARTED:
                self.add(InitStart(self._next()))
            case SchedulerEvent.INITIALIZATION_COMPLETED:
                rules = cast("Mapping[str, Rule]", facts["registrations"])
                self.add(InitEnd(self._next(), dict(rules)))
            case SchedulerEvent.INITIALIZATION_FAILED if self._in_force:
                # To an observer, a scheduler that became uninitialized has stopped.
                self.add(StopStart(self._next()))
                self.add(StopEnd(self._next()))
            case SchedulerEvent.STOP_REQUESTED:
                self.add(StopStart(self._next()))
            case SchedulerEvent.STOPPED:
                self.add(StopEnd(self._next()))
            case SchedulerEvent.RUN_STARTED | SchedulerEvent.RETRY_STARTED:
                self.add(RunStart(self._next(), task))
            case SchedulerEvent.RUN_COMPLETED | SchedulerEvent.RUN_FAILED:
                self.add(RunEnd(self._next(), task, event_name is SchedulerEvent.RUN_COMPLETED))

    def add(self, event: Event) -> None:
        self.events.append(event)

    def crash(self) -> None:
        self.add(UnexpectedShutdown(self._next()))

    def trace(self) -> Trace:
        return Trace(tuple(self.events), self._next(), self._zone)

    @property
    def _in_force(self) -> bool:
        kinds = [
            event for event in self.events if isinstance(event, InitEnd | StopStart | UnexpectedShutdown)
        ]
        return bool(kinds) and isinstance(kinds[-1], InitEnd)

    def _next(self) -> datetime:
        # The clock may be set back; recorded times never decrease.
        return max([self._clock(), *(event.at for event in self.events[-1:])])
