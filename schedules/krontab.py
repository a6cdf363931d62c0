"""A one-string krontab entry in -> its cron, zone, spread and policy out, and the same string back.

    0 10 * * * @tz(Europe/Paris) @win(around,90m) @dist(skewLate,shape=2.5) @only(dow=MON-FRI)

Modifiers come in any order; `@only` and `@avoid` may repeat. The nominal times follow the rules of
Chronex cron; `decide` says when each of them starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from schedules import chronex
from schedules.chronex import Expression, Options
from schedules.kron import DecisionResult, Spread
from schedules.kron.modifiers import (
    Policy,
    format_policy,
    format_spread,
    read_policy,
    read_spread,
    refused,
    scan,
)
from schedules.text import MAX_LENGTH
from schedules.zones import Zone, find_zone, zone_of

__all__ = ["Krontab", "Policy", "Spread", "parse", "parse_spread"]

_FIRST_MODIFIER = re.compile(r"@[A-Za-z]+\(")


@dataclass(frozen=True, slots=True)
class Krontab:
    """A schedule of nominal times that knows how each of them is spread."""

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
        """When the occurrence of that nominal time starts."""
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
    """The entry a text stands for; `@tz` wins over the caller's zone, UTC is the default."""
    if len(text) > MAX_LENGTH:
        raise refused("krontab", text, f"longer than {MAX_LENGTH} characters", 0)
    first = _FIRST_MODIFIER.search(text)
    head = text[: first.start()] if first else text
    found = scan(text, len(head))
    zone = find_zone(found["tz"][0].content) if "tz" in found else zone_of(timezone or "UTC")
    cron = chronex.parse(head, timezone=zone.info, trigger_id=trigger_id)
    if cron.kind != "cron" or cron.declared_timezone or cron.options != Options():
        raise refused("cron", head, "expected 5 or 6 plain cron fields", 0)
    return Krontab(cron, zone.name, read_spread(found), read_policy(found))


def parse_spread(text: str) -> Spread:
    """A spread setting written with the same modifiers: `@win(after,1h) @dist(skewEarly)`."""
    if len(text) > MAX_LENGTH:
        raise refused("spread", text, f"longer than {MAX_LENGTH} characters", 0)
    found = scan(text, 0)
    if extra := sorted(set(found) - {"win", "dist", "seed", "only", "avoid"}):
        raise refused(extra[0], text, "not part of a spread", found[extra[0]][0].position)
    return read_spread(found)
