"""Guard the schedules of registered kinds, which are code of the user.

Whatever that code does, the result is a later instant, None, or a `CustomScheduleError`: for an exception,
for a result that is not later than the argument, and for code that takes longer than MAX_SECONDS in all. Code
that blocks is interrupted by a signal, which only the main thread receives: that of a beat. In other threads
there is no limit.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from types import FrameType
from typing import Protocol, TypeVar

from punctual.schedules.errors import CustomScheduleError, ScheduleError
from punctual.schedules.text import clip
from punctual.schedules.utc import iterate, rfc3339, utc
from punctual.schedules.wall_clock.zones import Zone

MAX_SECONDS = 5.0  # of all calls of one schedule: a beat makes a new one each time it plans a job
_AGAIN_SECONDS = 0.1
Value = TypeVar("Value")


class Ticker(Protocol):
    """What a user's own kind of schedule implements."""

    def next_after(self, instant: datetime, /) -> datetime | None: ...


class _Overtime(BaseException):
    """Not an Exception: the user's code shall not catch it by accident."""


@dataclass(slots=True)
class Guard:
    """Calls code of one kind; `rest` are the seconds that it may still take."""

    kind: str
    rest: float = MAX_SECONDS

    def call(self, function: Callable[[], Value]) -> Value:
        """Call a function of the user; every failure is a `CustomScheduleError`."""
        if self.rest <= 0.0:
            raise self._overtime()
        try:
            value, self.rest = _call_for(self.rest, function)
        except ScheduleError:
            raise
        except _Overtime:
            self.rest = 0.0
            raise self._overtime() from None
        except Exception as error:
            raise self.refusal(f"{type(error).__name__}: {_text(error)}") from error
        return value

    def _overtime(self) -> CustomScheduleError:
        return self.refusal(f"took longer than {MAX_SECONDS:g} seconds to compute its instants")

    def refusal(self, reason: str) -> CustomScheduleError:
        return CustomScheduleError(f"{self.kind}: {reason}", field="kind", value=self.kind, position=0)


@dataclass(frozen=True, slots=True)
class CustomSchedule:
    """A schedule of a registered kind that keeps to the contract, or raises."""

    kind: str
    text: str
    inner: Ticker
    guard: Guard = field(compare=False, repr=False)

    @property
    def zone(self) -> Zone | None:
        zone = getattr(self.inner, "zone", None)
        return zone if isinstance(zone, Zone) else None

    def next_after(self, instant: datetime, /) -> datetime | None:
        instant = utc(instant)
        following = self.guard.call(lambda: self.inner.next_after(instant))
        if following is None:
            return None
        later = utc(following, f"{self.kind}: result of next_after")
        if later <= instant:
            call = f"next_after({rfc3339(instant)}) returned {rfc3339(later)}"
            raise self.guard.refusal(f"{call}, expected a later instant or None")
        return later

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return iterate(self.next_after, start, end)

    def describe(self) -> str:
        """The words of the user's own `__str__`, if there is one."""
        own = type(self.inner).__str__ is not object.__str__
        return self.guard.call(lambda: str(self.inner)) if own else str(self)

    def __str__(self) -> str:
        return f"{self.kind}:{self.text}"


def guarded(kind: str, text: str, parser: Callable[[], Ticker]) -> CustomSchedule | Ticker:
    """Call a registered parser; a schedule of this package that it returns needs no guard."""
    guard = Guard(kind)
    inner = guard.call(parser)
    if type(inner).__module__.startswith("punctual.schedules."):
        return inner
    if not callable(getattr(inner, "next_after", None)):
        raise guard.refusal(f"its parser returned {clip(inner)}, expected an object with next_after(instant)")
    return CustomSchedule(kind, text, inner, guard)


def _call_for(seconds: float, function: Callable[[], Value]) -> tuple[Value, float]:
    """Call a function, and interrupt it when the time is up; return what is left of the time, too."""
    outer, outer_interval = signal.getitimer(signal.ITIMER_REAL)
    if threading.current_thread() is not threading.main_thread() or 0.0 < outer <= seconds:
        return function(), seconds  # only the main thread can be interrupted; a timer of the host comes first
    handler = signal.signal(signal.SIGALRM, _raise_overtime)
    rest = 0.0
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
        try:
            return function(), signal.getitimer(signal.ITIMER_REAL)[0]
        finally:
            rest, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, handler)
        if outer:
            signal.setitimer(signal.ITIMER_REAL, outer - (seconds - rest), outer_interval)


def _raise_overtime(_number: int, _frame: FrameType | None) -> None:
    raise _Overtime


def _text(error: Exception) -> str:
    try:
        return clip(str(error))
    except Exception:  # noqa: BLE001 -- code of the user
        return "without a message"
