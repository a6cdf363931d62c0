"""What an outsider sees of a scheduler, with times: the events that the temporal properties speak of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from polling.events import Facts, Signal
from polling.registrations import Rule


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
    """Events in the order they happened, observed until then; cron fields are read in `zone`."""

    events: tuple[Event, ...]
    until: datetime
    zone: str = "UTC"

    def __post_init__(self) -> None:
        times = [event.at for event in self.events]
        if times != sorted(times) or (times and times[-1] > self.until):
            raise ValueError("events must be in order of time, none after the end of observation")


class Recorder:
    """A listener that writes a trace down; of events at one instant the order tells which was first."""

    def __init__(self, clock: Callable[[], datetime], *, zone: str = "UTC") -> None:
        self._clock = clock
        self._zone = zone
        self.signals: list[Signal] = []
        self.events: list[Event] = []

    def __call__(self, signal: Signal, facts: Facts) -> None:
        self.signals.append(signal)
        task = str(facts.get("task", ""))
        match signal:
            case Signal.INITIALIZATION_STARTED | Signal.REINITIALIZATION_STARTED:
                self.add(InitStart(self._next()))
            case Signal.INITIALIZATION_COMPLETED:
                rules = cast("Mapping[str, Rule]", facts["registrations"])
                self.add(InitEnd(self._next(), dict(rules)))
            case Signal.INITIALIZATION_FAILED if self._in_force:
                # Seen from outside, a scheduler that fell back to uninitialized has stopped.
                self.add(StopStart(self._next()))
                self.add(StopEnd(self._next()))
            case Signal.STOP_REQUESTED:
                self.add(StopStart(self._next()))
            case Signal.STOPPED:
                self.add(StopEnd(self._next()))
            case Signal.RUN_STARTED | Signal.RETRY_STARTED:
                self.add(RunStart(self._next(), task))
            case Signal.RUN_COMPLETED | Signal.RUN_FAILED:
                self.add(RunEnd(self._next(), task, signal is Signal.RUN_COMPLETED))

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
        # A clock may be set back; the order of events is not.
        return max([self._clock(), *(event.at for event in self.events[-1:])])
