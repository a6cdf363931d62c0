"""Run every repair step of the safety net once and return the counts."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from punctual.execution.broker.dispatch import Dispatched, dispatch
from punctual.execution.ending.settle import Settled, combine
from punctual.jobs.database_errors import unless_locked
from punctual.recovery.pruning import prune_step
from punctual.recovery.sweeper.free_slots import admit_stranded
from punctual.recovery.sweeper.idle_slots import Freed, free_idle_slots
from punctual.recovery.sweeper.reaper import Reaped, reap
from punctual.recovery.sweeper.replacement import end_replaced
from punctual.recovery.sweeper.resend import Resent, resend
from punctual.recovery.sweeper.settlement import request_settlement
from punctual.recovery.sweeper.timeouts import end_never_claimed, end_overdue

INTERVAL = timedelta(seconds=2)


@dataclass(frozen=True)
class Swept:
    """How many attempts were lost, occurrences timed out, messages resent, settlements requested,
    occurrences admitted and occurrences pruned."""

    lost: int
    stale: int
    resent: int
    settle_requests: int
    admitted: int
    pruned: int = 0


def run_once(now: datetime) -> Swept:
    """A step that needs a row held by another session is left out; the others go on."""
    reaped, stale, replaced, resent, requested = Reaped(), Settled(), Settled(), Resent(), Dispatched()
    freed = Freed()
    admitted: tuple[UUID, ...] = ()
    pruned = 0
    with unless_locked("reap"):
        reaped = reap(now)
    with unless_locked("end overdue"):
        stale = combine(end_overdue(now), end_never_claimed(now))
    with unless_locked("end replaced"):
        replaced = end_replaced(now)
    with unless_locked("free idle slots"):
        freed = free_idle_slots(now)
    with unless_locked("admit"):
        admitted = admit_stranded(now)
    # Resend lost runs unbundled: one of them may be what crashes workers.
    dispatch(reaped.settled.released, now=now, bundles=False)
    dispatch([*stale.released, *replaced.released, *freed.released, *admitted], now=now)
    with unless_locked("resend"):
        resent = resend(now)
    with unless_locked("settle"):
        just_ended = (*reaped.settled.finished, *stale.finished, *replaced.finished)
        requested = request_settlement(now, just_ended=just_ended)
    with unless_locked("prune"):
        pruned = prune_step(now)  # last: a failure of pruning must not prevent the repairs above
    return Swept(
        lost=reaped.lost,
        stale=len(stale.finished),
        resent=resent.sent,
        settle_requests=requested.sent,
        admitted=len(admitted),
        pruned=pruned,
    )
