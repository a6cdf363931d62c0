"""A retry policy: how often, and how long to wait before each further attempt (EXE-4)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from jobs.durations import duration, format_duration

MOST_RETRIES = 10_000


@dataclass(frozen=True)
class Retry:
    """`Retry(3, "30s", backoff=2)`: three more tries, after 30 s, 1 min and 2 min."""

    max_retries: int
    interval: timedelta | str = timedelta(seconds=30)
    backoff: float = 1.0
    max_interval: timedelta | str = timedelta(hours=1)
    jitter: timedelta | str = timedelta()

    def __post_init__(self) -> None:
        for name in ("interval", "max_interval", "jitter"):
            object.__setattr__(self, name, _span(name, getattr(self, name)))
        if not isinstance(self.max_retries, int) or isinstance(self.max_retries, bool):
            raise ValueError(f"max_retries={self.max_retries!r}: expected a whole number")  # noqa: TRY004 - one error kind for bad values
        if not 0 <= self.max_retries <= MOST_RETRIES:
            raise ValueError(f"max_retries={self.max_retries!r}: expected 0 to {MOST_RETRIES}")
        if not isinstance(self.backoff, int | float) or not 1 <= self.backoff <= 100:  # noqa: PLR2004
            raise ValueError(f"backoff={self.backoff!r}: expected a number from 1 to 100")

    def delay(self, retry: int, *, draw: float) -> timedelta:
        """The wait before retry number `retry` (from 0); `draw` in [0, 1) places the jitter."""
        interval, longest, jitter = _spans(self.interval, self.max_interval, self.jitter)
        if not interval:
            return jitter * draw
        # The cap is compared as a factor, in floats: backoff ** retry may be far beyond any timedelta.
        factor = min(_power(self.backoff, retry), longest / interval)
        return min(interval * factor, longest) + jitter * draw

    def dumped(self) -> dict[str, Any]:
        interval, longest, jitter = _spans(self.interval, self.max_interval, self.jitter)
        return {
            "max_retries": self.max_retries,
            "interval": format_duration(interval),
            "backoff": float(self.backoff),
            "max_interval": format_duration(longest),
            "jitter": format_duration(jitter),
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> "Retry":
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(stored) - known):
            raise ValueError(f"unknown field {unknown[0]!r}; expected {', '.join(sorted(known))}")
        if "max_retries" not in stored:
            raise ValueError("max_retries is missing")
        return cls(**stored)


def _power(base: float, exponent: int) -> float:
    try:
        return float(base) ** exponent
    except OverflowError:
        return float("inf")


def _span(name: str, value: object) -> timedelta:
    try:
        return duration(value, zero=True)
    except ValueError as error:
        raise ValueError(f"{name}={value!r}: {error}") from None


def _spans(*values: timedelta | str) -> list[timedelta]:
    """__post_init__ has turned every text into a timedelta; this tells the type checker."""
    return [value for value in values if isinstance(value, timedelta)]
