"""Decide what becomes of a run from the result of its attempt and its retry policy. Pure."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from punctual.jobs.config.bounded_duration import MAX_DURATION
from punctual.jobs.config.retry import Retry
from punctual.occurrences.states import Reason


class Ending(StrEnum):
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    FATAL = "fatal"  # NonRetryable
    CANCELED = "canceled"
    SNOOZED = "snoozed"
    RELEASED = "released"  # its worker was told to stop
    UNSURE = "unsure"  # its worker died with a bundle, and the run may or may not have begun


@dataclass(frozen=True)
class Result:
    """How one attempt ended; `delay` is what the task asked for."""

    ending: Ending
    error_type: str = ""
    error: str = ""
    traceback: str = ""
    delay: timedelta | None = None
    log: str = ""
    exception: Exception | None = field(default=None, compare=False, repr=False)  # to be shown to Celery


@dataclass(frozen=True)
class Succeed: ...


@dataclass(frozen=True)
class Wait:
    """Try again at `at`: a retry, or a snooze that costs no attempt."""

    at: datetime


@dataclass(frozen=True)
class Exhaust:
    reason: str


@dataclass(frozen=True)
class Stop:
    reason: str


@dataclass(frozen=True)
class Restart:
    """Send it again at once; the attempt does not count as a retry."""


Outcome = Succeed | Wait | Exhaust | Stop | Restart


def decide(  # noqa: PLR0911 - a table
    result: Result, retry: Retry, *, failures: int, seed: UUID, now: datetime
) -> Outcome:
    """`failures` counts this attempt if it failed; `seed` makes the jitter the same on every machine."""
    match result.ending:
        case Ending.SUCCESS:
            return Succeed()
        case Ending.CANCELED:
            return Stop(result.error or Reason.CANCELED_BY_TASK)
        case Ending.SNOOZED:
            return Wait(now + min(result.delay or timedelta(), MAX_DURATION))
        case Ending.RELEASED | Ending.UNSURE:
            return Restart()
        case Ending.FATAL:
            return Exhaust(Reason.NON_RETRYABLE)
    if failures > retry.max_retries:
        return Exhaust(f"{result.ending} after {failures} attempts")
    wait = result.delay
    if wait is None:
        wait = retry.delay(failures - 1, draw=_draw(seed, failures))
    return Wait(now + min(wait, MAX_DURATION))  # a task may ask for a delay that ends after the calendar


def _draw(seed: UUID, number: int) -> float:
    digest = hashlib.sha256(seed.bytes + number.to_bytes(4)).digest()
    return int.from_bytes(digest[:7]) / 2**56
