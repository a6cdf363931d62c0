"""A draft, a zone and a reference in -> an immutable Chronex expression out that answers "when?"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from schedules.chronex.options import Options
from schedules.durations import milliseconds
from schedules.instants import MILLISECOND, TICK, each, rfc3339, shifted, utc
from schedules.kron.generator import draw_below
from schedules.recurrence import Recurrence
from schedules.zones import Zone

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


@dataclass(frozen=True, slots=True)
class Plan:
    """When one occurrence starts: nominal + stagger + jitter, or not at all."""

    nominal: datetime
    run_at: datetime
    is_skipped: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expression(ABC):
    """One Chronex expression; equal when canonically equal, whatever the original text looked like."""

    text: str
    canonical: str
    declared_timezone: str | None
    zone: Zone
    options: Options
    trigger_id: str

    @property
    @abstractmethod
    def kind(self) -> Literal["cron", "every", "once"]: ...

    @property
    def timezone(self) -> str:
        """The zone in force: the text's own, else the caller's, else UTC."""
        return self.zone.name

    @property
    def tags(self) -> tuple[str, ...]:
        return self.options.tags

    @property
    def once_at(self) -> datetime | None:
        return None

    @abstractmethod
    def next_after(self, instant: datetime) -> datetime | None:
        """The first nominal instant later than the given one, in UTC; None when there is none."""

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Every nominal instant in (start, end]."""
        return each(self.next_after, start, end)

    def for_trigger(self, trigger_id: str) -> Expression:
        """The same expression drawing its random intervals for that trigger."""
        return replace(self, trigger_id=trigger_id)

    def stagger_for(self, trigger_id: str) -> timedelta:
        """The fixed offset in [0, stagger) that belongs to the trigger id."""
        limit = milliseconds(self.options.stagger)
        return timedelta(milliseconds=fnv1a(trigger_id) % limit) if limit else timedelta()

    def jitter_for(self, trigger_id: str, nominal: datetime) -> timedelta:
        """The delay in [0, jitter) that belongs to this occurrence on every node."""
        limit = milliseconds(self.options.jitter)
        if not limit:
            return timedelta()
        key = rfc3339(utc(nominal, "nominal"))
        return draw_below(limit, identity=trigger_id, key=key, salt="jitter") * MILLISECOND

    def plan(self, trigger_id: str, nominal: datetime) -> Plan:
        """Stagger first, then jitter; skipped when both together leave the window."""
        delay = self.stagger_for(trigger_id) + self.jitter_for(trigger_id, nominal)
        window = self.options.window
        return Plan(nominal, nominal + delay, is_skipped=window is not None and delay > window)

    def is_missed(self, nominal: datetime, starts_at: datetime) -> bool:
        """Whether a start at that instant would be later than the window allows; equal still runs."""
        window = self.options.window
        return window is not None and starts_at - nominal > window

    def allows_start(self, starts: int) -> bool:
        """Whether one more start fits under `max`; failed starts count, skipped occurrences do not."""
        return self.options.max is None or starts < self.options.max

    def _bounded(self, found: datetime | None) -> datetime | None:
        until = self.options.until
        return None if found is None or (until is not None and found > until) else found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __str__(self) -> str:
        return self.canonical

    def __repr__(self) -> str:
        return f"<Expression {self.canonical!r}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CronExpression(Expression):
    """Calendar pattern in a zone."""

    recurrence: Recurrence
    is_bounded: bool

    @property
    def kind(self) -> Literal["cron"]:
        return "cron"

    def next_after(self, instant: datetime) -> datetime | None:
        if not self.is_bounded:
            return self.recurrence.next_after(instant)
        begin = self.options.from_
        if begin is not None and utc(instant) < begin:
            instant = begin - TICK
        return self._bounded(self.recurrence.next_after(instant))

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        start, end = utc(start, "start"), utc(end, "end")
        if self.options.from_ is not None:
            start = max(start, self.options.from_ - TICK)
        if self.options.until is not None:
            end = min(end, self.options.until)
        return self.recurrence.between(start, end)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EveryExpression(Expression):
    """Fixed or drawn interval from an anchor; without one, from the instant asked about."""

    shortest: timedelta
    longest: timedelta
    anchor: datetime | None
    # How far each trigger's chain of drawn intervals has been walked: a memo, never an input.
    _walked: dict[str, datetime] = field(default_factory=dict[str, datetime])

    @property
    def kind(self) -> Literal["every"]:
        return "every"

    def next_after(self, instant: datetime) -> datetime | None:
        instant = utc(instant)
        anchor = instant if self.anchor is None else self.anchor
        if anchor >= instant:
            return self._bounded(self.following(anchor))
        if self.shortest == self.longest:
            passed = (instant - anchor) // self.shortest
            return self._bounded(shifted(anchor, (passed + 1) * self.shortest))
        return self._bounded(self._walk(anchor, instant))

    def following(self, previous: datetime) -> datetime | None:
        """The instant after a scheduled one: the interval depends on nothing but that one."""
        spread = milliseconds(self.longest - self.shortest)
        if not spread:
            return shifted(previous, self.shortest)
        key = rfc3339(previous)
        drawn = draw_below(spread + 1, identity=self.trigger_id, key=key, salt="every")
        return shifted(previous, self.shortest + drawn * MILLISECOND)

    def _walk(self, anchor: datetime, instant: datetime) -> datetime | None:
        """Drawn intervals form a chain, so the way from the anchor has to be walked, but only once."""
        previous = self._walked.get(self.trigger_id, anchor)
        if previous > instant:
            previous = anchor
        while (found := self.following(previous)) is not None and found <= instant:
            previous = found
        self._walked[self.trigger_id] = previous
        return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OnceExpression(Expression):
    """One instant."""

    at: datetime

    @property
    def kind(self) -> Literal["once"]:
        return "once"

    @property
    def once_at(self) -> datetime:
        return self.at

    def next_after(self, instant: datetime) -> datetime | None:
        begin = self.options.from_
        if self.at <= utc(instant) or (begin is not None and self.at < begin):
            return None
        return self._bounded(self.at)


def fnv1a(text: str) -> int:
    """FNV-1a, 32 bits, over UTF-8."""
    value = _FNV_OFFSET
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value
