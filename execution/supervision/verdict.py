"""Decide what the supervisor has to do about a running attempt. Pure."""

from dataclasses import dataclass
from enum import Enum, auto

from punctual.conf import Settings
from punctual.execution.ending.outcome import Ending
from punctual.execution.supervision.board import Facts, StopCause


class Verdict(Enum):
    LEAVE = auto()
    INTERRUPT = auto()  # raise an exception in its function
    KILL = auto()
    ABANDON = auto()  # it cannot be killed: it goes on, and its result will not count
    GONE = auto()  # its process has died


@dataclass(frozen=True)
class WatchedAttempt:
    """What the supervisor knows of an attempt: the facts, and what it has done about it so far."""

    facts: Facts
    cause: StopCause = StopCause.NONE
    since: float = 0.0  # when `cause` was set
    renewed: float = 0.0
    interrupted: bool = False
    killed: bool = False
    abandoned: bool = False
    relieved: bool = False  # of the other runs of its bundle

    @property
    def given_up(self) -> bool:
        """Nothing is left to do but to wait until its process is gone or its function returns."""
        return self.killed or self.abandoned


def stop_times(attempt: WatchedAttempt, settings: Settings) -> tuple[float, float, StopCause]:
    """When the attempt is interrupted, when it is killed, and why."""
    kill_after = settings.kill_after.total_seconds()
    timeout = attempt.facts.limit
    match attempt.cause:
        case StopCause.CANCELED:
            interrupt_at = attempt.since + settings.cancel_grace.total_seconds()
        case StopCause.STOPPING:
            # The grace covers both: the interruption comes before its end, the kill at its end.
            grace = settings.shutdown_grace.total_seconds()
            kill_after = min(kill_after, grace / 4)
            interrupt_at = attempt.since + grace - kill_after
        case _:
            return timeout, timeout + kill_after, StopCause.TIMEOUT
    if timeout < interrupt_at:
        return timeout, timeout + kill_after, StopCause.TIMEOUT
    return interrupt_at, interrupt_at + kill_after, attempt.cause


def verdict(
    attempt: WatchedAttempt, *, at: float, alive: bool, killable: bool, settings: Settings
) -> Verdict:
    if not alive:
        return Verdict.GONE
    if attempt.given_up or not attempt.facts.running:
        return Verdict.LEAVE
    interrupt_at, kill_at, _ = stop_times(attempt, settings)
    if at >= kill_at:
        return Verdict.KILL if killable else Verdict.ABANDON
    if at >= interrupt_at and not attempt.interrupted:
        return Verdict.INTERRUPT
    return Verdict.LEAVE


def ending(attempt: WatchedAttempt, settings: Settings) -> Ending | None:
    """How an attempt ended whose process is gone or that was abandoned; None if it is recorded already."""
    cause = stop_times(attempt, settings)[2] if attempt.given_up else attempt.cause
    match cause:
        case StopCause.CANCELED:
            return None
        case StopCause.TIMEOUT:
            return Ending.TIMEOUT
        case StopCause.STOPPING:
            # Also if the process died before the kill: the operator who stops the worker may have killed it.
            return Ending.RELEASED
    return Ending.LOST
