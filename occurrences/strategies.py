"""A recovery strategy and the instants that were missed → which of them run after all (REC-1). Pure.

What runs is always the newest part of what was missed, so two bounds say everything: how many, and
since when. Planning needs them as well: of a job that is far behind, what lies before them gets no
row of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.config import Config, Recovery


@dataclass(frozen=True)
class Bounds:
    """`newest`: at most so many; `since`: none before it; None: unbounded."""

    newest: int | None = None
    since: datetime | None = None


def bounds(config: Config, now: datetime) -> Bounds:
    match config.recovery:
        case Recovery.EXECUTE_ALL:
            return Bounds()
        case Recovery.EXECUTE_LAST | Recovery.COMPRESSED:
            return Bounds(newest=1)
        case Recovery.MARK_AS_MISSED:
            return Bounds(newest=0)
        case Recovery.BOUNDED_WINDOW:
            span = config.recovery_max_duration
            return Bounds(config.recovery_max_occurrences, None if span is None else now - span)


def to_execute(config: Config, missed: Sequence[datetime], now: datetime) -> frozenset[datetime]:
    """The instants that still run. Old ones are dropped first, then the newest N are kept."""
    within = bounds(config, now)
    recent = [instant for instant in sorted(missed) if within.since is None or instant >= within.since]
    surplus = 0 if within.newest is None else max(len(recent) - within.newest, 0)
    return frozenset(recent[surplus:])
