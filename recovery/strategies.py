"""A recovery strategy and the instants that were missed → which of them run after all (REC-1). Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from jobs.config import Config, Recovery


def to_execute(config: Config, missed: Sequence[datetime], now: datetime) -> frozenset[datetime]:
    """The instants that still run; the others are recorded as missed."""
    ordered = sorted(missed)
    match config.recovery:
        case Recovery.EXECUTE_ALL:
            kept = ordered
        case Recovery.EXECUTE_LAST:
            kept = ordered[-1:]
        case Recovery.MARK_AS_MISSED:
            kept = []
        case Recovery.BOUNDED_WINDOW:
            kept = _bounded(ordered, now, config.recovery_max_duration, config.recovery_max_occurrences)
    return frozenset(kept)


def _bounded(
    ordered: list[datetime], now: datetime, span: timedelta | None, most: int | None
) -> list[datetime]:
    """Old ones are dropped first, then the newest N are kept; without a bound nothing is dropped."""
    recent = [instant for instant in ordered if span is None or instant >= now - span]
    return recent if most is None else recent[-most:]
