"""The `kron:` kind: a cron text with modifiers for zone, spread and policy, in one string.

    0 10 * * * @tz(Europe/Paris) @win(around,90m) @dist(skewLate,shape=2.5) @only(dow=MON-FRI)

Modifiers come in any order; `@only` and `@avoid` may repeat. The nominal times follow the rules of
Chronex cron; `decide` computes when each of them starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from punctual.schedules import chronex
from punctual.schedules.chronex import Expression, Options
from punctual.schedules.errors import ChronexError, UnknownZoneError
from punctual.schedules.kron import DecisionResult, Spread
from punctual.schedules.kron.modifiers import (
    Modifiers,
    Policy,
    format_policy,
    format_spread,
    read_policy,
    read_spread,
    refusal,
    scan,
)
from punctual.schedules.suggestions import for_zone
from punctual.schedules.text import clip, text_problem
from punctual.schedules.wall_clock.zones import Zone, find_zone, zone_of

__all__ = ["Krontab", "Policy", "Spread", "parse", "parse_spread"]

PREFIX = "kron:"
_FIRST_MODIFIER = re.compile(r"@[A-Za-z]+\(")


@dataclass(frozen=True, slots=True)
class Krontab:
    """A cron schedule of nominal times, each with a chosen start time."""

    cron: Expression
    timezone: str
    spread: Spread
    policy: Policy
    states_zone: bool = field(default=False, compare=False)

    @property
    def zone(self) -> Zone:
        return self.cron.zone

    def next_after(self, instant: datetime, /) -> datetime | None:
        return self.cron.next_after(instant)

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return self.cron.between(start, end)

    def decide(self, identity: str, nominal: datetime) -> DecisionResult:
        """Decide when the occurrence of a nominal time starts."""
        return self.spread.decide(identity, nominal, self.timezone)

    def __str__(self) -> str:
        zone = [f"@tz({self.timezone})"] if self.timezone != "UTC" or self.states_zone else []
        parts = [self.cron.canonical, *zone, *format_spread(self.spread), *format_policy(self.policy)]
        return PREFIX + " ".join(parts)


def parse(
    text: str,
    *,
    reference: datetime | None = None,  # noqa: ARG001 -- every kind is called alike
    timezone: str | tzinfo | None = None,
    trigger_id: str = "",
) -> Krontab:
    """Parse an entry, with or without its prefix; `@tz` takes precedence over the caller's zone."""
    if problem := text_problem(text):
        raise refusal("krontab", clip(text), problem, 0)
    start = len(PREFIX) if text.startswith(PREFIX) else 0
    first = _FIRST_MODIFIER.search(text, start)
    end = first.start() if first else len(text)
    modifiers = scan(text, end)
    zone = _zone(modifiers, timezone)
    return Krontab(
        _cron(text[start:end], start, zone, trigger_id),
        zone.name,
        read_spread(modifiers),
        read_policy(modifiers),
        "tz" in modifiers,
    )


def _cron(head: str, start: int, zone: Zone, trigger_id: str) -> Expression:
    try:
        cron = chronex.parse(head, timezone=zone.info, trigger_id=trigger_id)
    except ChronexError as error:
        error.move_by(start)
        raise
    if cron.kind != "cron" or cron.declared_timezone or cron.options != Options():
        raise refusal("cron", head, "expected 5 or 6 plain cron fields", start)
    return cron


def _zone(modifiers: Modifiers, timezone: str | tzinfo | None) -> Zone:
    """The zone of `@tz`, else the caller's. It needs a name: decisions and the printed text refer to it."""
    if "tz" not in modifiers:
        return find_zone(zone_of("UTC" if timezone is None else timezone).name)
    name = modifiers["tz"][0].content
    try:
        return find_zone(name.text)
    except UnknownZoneError as error:
        error.position, error.hint = name.position, for_zone(name.text)
        raise


def parse_spread(text: str) -> Spread:
    """Parse a job's spread setting, written with the same modifiers: `@win(after,1h) @dist(skewEarly)`."""
    if problem := text_problem(text):
        raise refusal("spread", clip(text), problem, 0)
    modifiers = scan(text, 0)
    if extra := sorted(set(modifiers) - {"win", "dist", "seed", "only", "avoid"}):
        raise refusal(extra[0], text, "not part of a spread", modifiers[extra[0]][0].position)
    return read_spread(modifiers)
