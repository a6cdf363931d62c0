"""The `kron:` kind: a cron text with modifiers for zone, spread and policy, in one string.

    0 10 * * * @tz(Europe/Paris) @win(around,90m) @dist(skewLate,shape=2.5) @only(dow=MON-FRI)

Modifiers come in any order; `@only` and `@avoid` may repeat. The nominal times follow the rules of
Chronex cron; `decide` computes when each of them starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from punctual.schedules import chronex
from punctual.schedules.chronex import Expression, Options
from punctual.schedules.kron import DecisionResult, Spread
from punctual.schedules.kron.modifiers import (
    Policy,
    format_policy,
    format_spread,
    read_policy,
    read_spread,
    refusal,
    scan,
)
from punctual.schedules.text import MAX_LENGTH
from punctual.schedules.wall_clock.zones import Zone, find_zone, zone_of

__all__ = ["Krontab", "Policy", "Spread", "parse", "parse_spread"]

_FIRST_MODIFIER = re.compile(r"@[A-Za-z]+\(")


@dataclass(frozen=True, slots=True)
class Krontab:
    """A cron schedule of nominal times, each with a chosen start time."""

    cron: Expression
    timezone: str
    spread: Spread
    policy: Policy

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
        zone = [f"@tz({self.timezone})"] if self.timezone != "UTC" else []
        parts = [self.cron.canonical, *zone, *format_spread(self.spread), *format_policy(self.policy)]
        return " ".join(parts)


def parse(
    text: str,
    *,
    reference: datetime | None = None,  # noqa: ARG001 -- every kind is called alike
    timezone: str | tzinfo | None = None,
    trigger_id: str = "",
) -> Krontab:
    """Parse an entry; `@tz` takes precedence over the caller's zone, the default is UTC."""
    if len(text) > MAX_LENGTH:
        raise refusal("krontab", text, f"longer than {MAX_LENGTH} characters", 0)
    first = _FIRST_MODIFIER.search(text)
    head = text[: first.start()] if first else text
    modifiers = scan(text, len(head))
    zone = find_zone(modifiers["tz"][0].content) if "tz" in modifiers else zone_of(timezone or "UTC")
    cron = chronex.parse(head, timezone=zone.info, trigger_id=trigger_id)
    if cron.kind != "cron" or cron.declared_timezone or cron.options != Options():
        raise refusal("cron", head, "expected 5 or 6 plain cron fields", 0)
    return Krontab(cron, zone.name, read_spread(modifiers), read_policy(modifiers))


def parse_spread(text: str) -> Spread:
    """Parse a job's spread setting, written with the same modifiers: `@win(after,1h) @dist(skewEarly)`."""
    if len(text) > MAX_LENGTH:
        raise refusal("spread", text, f"longer than {MAX_LENGTH} characters", 0)
    modifiers = scan(text, 0)
    if extra := sorted(set(modifiers) - {"win", "dist", "seed", "only", "avoid"}):
        raise refusal(extra[0], text, "not part of a spread", modifiers[extra[0]][0].position)
    return read_spread(modifiers)
