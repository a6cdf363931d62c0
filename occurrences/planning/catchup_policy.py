"""Decide which late instants of a job still run, as its recovery policy says (REC-1). Pure.

What runs is always the newest part of what was missed, so two bounds are enough: how many, and since when.
Planning uses the same bounds: for a job that is far behind, instants before them get no row of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from punctual.jobs.config.cascade import Config
from punctual.jobs.config.choices import Recovery


@dataclass(frozen=True)
class Bounds:
    """`newest`: at most so many instants; `since`: none before it; None: unbounded."""

    newest: int | None = None
    since: datetime | None = None


def bounds(config: Config, now: datetime) -> Bounds:
    """The bounds that the recovery policy sets at `now`."""
    match config.recovery:
        case Recovery.EXECUTE_ALL:
            return Bounds()
        case Recovery.EXECUTE_LAST | Recovery.COMPRESSED:
            return Bounds(newest=1)
        case Recovery.MARK_AS_MISSED:
            return Bounds(newest=0)
        case Recovery.BOUNDED_WINDOW:
            duration = config.recovery_max_duration
            return Bounds(config.recovery_max_occurrences, None if duration is None else now - duration)


def to_execute(config: Config, missed: Sequence[datetime], now: datetime) -> frozenset[datetime]:
    """The instants that still run: old ones are dropped first, then the newest N are kept."""
    within = bounds(config, now)
    recent = [instant for instant in sorted(missed) if within.since is None or instant >= within.since]
    surplus = 0 if within.newest is None else max(len(recent) - within.newest, 0)
    return frozenset(recent[surplus:])
