"""Chronex expressions: immutable values that compute instants, stagger, jitter and window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from punctual.schedules.chronex.options import Options
from punctual.schedules.chronex.random_intervals import RandomIntervals
from punctual.schedules.durations import milliseconds
from punctual.schedules.kron.generator import draw_below, encode_identity
from punctual.schedules.utc import MILLISECOND, TICK, iterate, rfc3339, shift_instant, utc
from punctual.schedules.wall_clock.recurrence import Recurrence
from punctual.schedules.wall_clock.zones import Zone

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


@dataclass(frozen=True, slots=True)
class Plan:
    """When one occurrence starts: nominal + stagger + jitter, unless it is skipped."""

    nominal: datetime
    run_at: datetime
    is_skipped: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expression(ABC):
    """One Chronex expression; two are equal if their canonical texts are equal."""

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
        """The zone of the text, else that of the caller, else UTC."""
        return self.zone.name

    @property
    def tags(self) -> tuple[str, ...]:
        return self.options.tags

    @property
    def once_at(self) -> datetime | None:
        return None

    @abstractmethod
    def next_after(self, instant: datetime) -> datetime | None:
        """The first nominal instant after the given one, in UTC; None if there is none."""

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Every nominal instant in (start, end]."""
        return iterate(self.next_after, start, end)

    def for_trigger(self, trigger_id: str) -> Expression:
        """The same expression with the random intervals of another trigger."""
        return replace(self, trigger_id=trigger_id)

    def stagger_for(self, trigger_id: str) -> timedelta:
        """The fixed offset of a trigger in [0, stagger)."""
        limit = milliseconds(self.options.stagger)
        return timedelta(milliseconds=fnv1a(trigger_id) % limit) if limit else timedelta()

    def jitter_for(self, trigger_id: str, nominal: datetime) -> timedelta:
        """The delay of an occurrence in [0, jitter), equal on every node."""
        limit = milliseconds(self.options.jitter)
        if not limit:
            return timedelta()
        key = rfc3339(utc(nominal, "nominal"))
        return draw_below(limit, identity=trigger_id, key=key, salt="jitter") * MILLISECOND

    def plan(self, trigger_id: str, nominal: datetime) -> Plan:
        """Add stagger and jitter; skip the occurrence if their sum exceeds the window."""
        delay = self.stagger_for(trigger_id) + self.jitter_for(trigger_id, nominal)
        window = self.options.window
        return Plan(nominal, nominal + delay, is_skipped=window is not None and delay > window)

    def is_missed(self, nominal: datetime, starts_at: datetime) -> bool:
        """Whether a start at that instant is later than nominal + window."""
        window = self.options.window
        return window is not None and starts_at - nominal > window

    def allows_start(self, starts: int) -> bool:
        """Whether `max` allows one more start; failed starts count, skipped occurrences do not."""
        return self.options.max is None or starts < self.options.max

    def _before_until(self, instant: datetime | None) -> datetime | None:
        until = self.options.until
        return None if instant is None or (until is not None and instant > until) else instant

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
    """A calendar pattern in a zone."""

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
        return self._before_until(self.recurrence.next_after(instant))

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        start, end = utc(start, "start"), utc(end, "end")
        if self.options.from_ is not None:
            start = max(start, self.options.from_ - TICK)
        if self.options.until is not None:
            end = min(end, self.options.until)
        return self.recurrence.between(start, end)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EveryExpression(Expression):
    """A fixed or random interval, counted from an anchor or else from the argument of `next_after`."""

    min_interval: timedelta
    max_interval: timedelta
    anchor: datetime | None
    # The last instant computed per trigger: a cache that does not change any result.
    _reached: dict[str, datetime] = field(default_factory=dict[str, datetime])

    @property
    def kind(self) -> Literal["every"]:
        return "every"

    def next_after(self, instant: datetime) -> datetime | None:
        instant = utc(instant)
        anchor = instant if self.anchor is None else self.anchor
        passed = max(instant - anchor, timedelta())
        if self.min_interval == self.max_interval:
            count = passed // self.min_interval + 1
            return self._before_until(shift_instant(anchor, count * self.min_interval))
        return self._before_until(self._walk(anchor, anchor + passed))

    def _walk(self, anchor: datetime, instant: datetime) -> datetime | None:
        """Step through the random intervals of one block, from the cached instant if that is nearer."""
        shortest, longest = milliseconds(self.min_interval), milliseconds(self.max_interval)
        intervals = RandomIntervals(shortest, longest, anchor)
        previous = intervals.fixed_point(instant)
        reached = self._reached.get(self.trigger_id, previous)
        if previous < reached <= instant:
            previous = reached
        while (following := intervals.following(previous, self.trigger_id)) and following <= instant:
            previous = following
        if self.anchor is not None:
            self._reached[self.trigger_id] = previous
        return following


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
        return self._before_until(self.at)


def fnv1a(text: str) -> int:
    """FNV-1a, 32 bits, over UTF-8."""
    value = _FNV_OFFSET
    for byte in encode_identity(text):
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value
