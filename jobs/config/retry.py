"""The retry policy: how many retries, and how long to wait before each (EXE-4)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from punctual.jobs.config.bounded_duration import duration, format_duration

MAX_RETRIES = 10_000
DEFAULT_CAP = timedelta(days=1)
JITTER_SHARE = 10  # jitter is this part of the interval: runs that failed together come back apart


@dataclass(frozen=True)
class Retry:
    """`Retry(3, "30s", backoff=2)` retries three times, after 30 s, 1 min and 2 min, each plus the jitter.

    `max_interval` is one day by default, or the interval if that is longer; `jitter` a tenth of the interval.
    """

    max_retries: int
    interval: timedelta | str = timedelta(seconds=30)
    backoff: float = 1.0
    max_interval: timedelta | str | None = None
    jitter: timedelta | str | None = None

    def __post_init__(self) -> None:
        interval = _span("interval", self.interval)
        spans = {
            "interval": interval,
            "max_interval": _span("max_interval", self.max_interval, max(DEFAULT_CAP, interval)),
            "jitter": _span("jitter", self.jitter, _in_milliseconds(interval / JITTER_SHARE)),
        }
        for name, span in spans.items():
            object.__setattr__(self, name, span)
        if spans["max_interval"] < interval:
            cap, shortest = format_duration(spans["max_interval"]), format_duration(interval)
            raise ValueError(f"max_interval={cap!r}: expected at least the interval, {shortest}")
        if not isinstance(self.max_retries, int) or isinstance(self.max_retries, bool):
            raise ValueError(f"max_retries={self.max_retries!r}: expected a whole number")  # noqa: TRY004 - one error kind for bad values
        if not 0 <= self.max_retries <= MAX_RETRIES:
            raise ValueError(f"max_retries={self.max_retries!r}: expected 0 to {MAX_RETRIES}")
        if not isinstance(self.backoff, int | float) or not 1 <= self.backoff <= 100:  # noqa: PLR2004
            raise ValueError(f"backoff={self.backoff!r}: expected a number from 1 to 100")

    def delay(self, retry: int, *, draw: float) -> timedelta:
        """Return the wait before retry number `retry` (from 0); `draw` in [0, 1) places the jitter."""
        interval, max_interval, jitter = _spans(self.interval, self.max_interval, self.jitter)
        if not interval:
            return jitter * draw
        # The cap is compared as a factor, in floats: backoff ** retry may overflow a timedelta.
        factor = min(_power(self.backoff, retry), max_interval / interval)
        return min(interval * factor, max_interval) + jitter * draw

    def to_json(self) -> dict[str, Any]:
        """Return the policy as it is stored."""
        interval, max_interval, jitter = _spans(self.interval, self.max_interval, self.jitter)
        return {
            "max_retries": self.max_retries,
            "interval": format_duration(interval),
            "backoff": float(self.backoff),
            "max_interval": format_duration(max_interval),
            "jitter": format_duration(jitter),
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> "Retry":
        """Read a stored policy; ValueError names the field that is wrong."""
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


def _in_milliseconds(span: timedelta) -> timedelta:
    """Without the microseconds, which are not stored."""
    return timedelta(milliseconds=span // timedelta(milliseconds=1))


def _span(name: str, value: object, default: timedelta | None = None) -> timedelta:
    if value is None and default is not None:
        return default
    try:
        return duration(value, zero=True)
    except ValueError as error:
        raise ValueError(f"{name}={value!r}: {error}") from None


def _spans(*values: timedelta | str | None) -> list[timedelta]:
    """Narrow the types: `__post_init__` has turned every text into a timedelta."""
    return [value for value in values if isinstance(value, timedelta)]
