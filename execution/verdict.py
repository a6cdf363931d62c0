"""An attempt under way, and the time → what its supervisor has to do about it. Pure."""

from dataclasses import dataclass
from enum import Enum, auto

from execution.limits import Limits
from execution.outcome import Ending
from execution.slots import Facts, Why


class Verdict(Enum):
    LEAVE = auto()
    INTERRUPT = auto()  # raise in its function
    KILL = auto()
    ABANDON = auto()  # it cannot be killed: it goes on, but what it does counts no more
    GONE = auto()  # its process has died


@dataclass(frozen=True)
class Watched:
    """What the supervisor knows of an attempt: the facts, and what was done about it so far."""

    facts: Facts
    why: Why = Why.NONE
    since: float = 0.0  # when `why` was set
    renewed: float = 0.0
    interrupted: bool = False
    killed: bool = False
    abandoned: bool = False

    @property
    def over(self) -> bool:
        """Nothing is left to do but to wait until its process is gone or comes back."""
        return self.killed or self.abandoned


def ends(watched: Watched, limits: Limits) -> tuple[float, float, Why]:
    """When it is interrupted, when it is killed, and what for."""
    kill_after = limits.kill_after.total_seconds()
    timeout = watched.facts.limit
    match watched.why:
        case Why.CANCELED:
            asked = watched.since + limits.cancel_grace.total_seconds()
        case Why.STOPPING:
            # The grace is for both: asked to end with a little of it left, killed when it is over.
            grace = limits.shutdown_grace.total_seconds()
            kill_after = min(kill_after, grace / 4)
            asked = watched.since + grace - kill_after
        case _:
            return timeout, timeout + kill_after, Why.TIMEOUT
    if timeout < asked:
        return timeout, timeout + kill_after, Why.TIMEOUT
    return asked, asked + kill_after, watched.why


def verdict(watched: Watched, *, at: float, alive: bool, killable: bool, limits: Limits) -> Verdict:
    if not alive:
        return Verdict.GONE
    if watched.over or not watched.facts.running:
        return Verdict.LEAVE
    interrupt_at, kill_at, _ = ends(watched, limits)
    if at >= kill_at:
        return Verdict.KILL if killable else Verdict.ABANDON
    if at >= interrupt_at and not watched.interrupted:
        return Verdict.INTERRUPT
    return Verdict.LEAVE


def ending(watched: Watched, limits: Limits) -> Ending | None:
    """How an attempt ended whose process is gone, or which was given up; None: the ledger knows already."""
    why = ends(watched, limits)[2] if watched.over else watched.why
    match why:
        case Why.CANCELED:
            return None
        case Why.TIMEOUT:
            return Ending.TIMEOUT
        case Why.STOPPING:
            # Also if it died by itself meanwhile: whoever stops the worker may not have waited.
            return Ending.RELEASED
    return Ending.LOST
