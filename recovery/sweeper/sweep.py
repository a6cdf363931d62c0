"""Run every repair step of the safety net once and return the counts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from punctual.execution.broker.dispatch import dispatch
from punctual.recovery.pruning import prune_step
from punctual.recovery.sweeper.free_slots import admit_stranded
from punctual.recovery.sweeper.reaper import reap
from punctual.recovery.sweeper.replacement import end_replaced
from punctual.recovery.sweeper.resend import resend
from punctual.recovery.sweeper.settlement import request_settlement
from punctual.recovery.sweeper.timeouts import end_overdue

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
    reaped = reap(now)
    stale = end_overdue(now)
    replaced = end_replaced(now)
    admitted = admit_stranded(now)
    # Resend lost runs unbundled: one of them may be what crashes workers.
    dispatch(reaped.settled.released, now=now, bundles=False)
    dispatch([*stale.released, *replaced.released, *admitted], now=now)
    just_ended = (*reaped.settled.finished, *stale.finished, *replaced.finished)
    return Swept(
        lost=reaped.lost,
        stale=len(stale.finished),
        resent=resend(now).sent,
        settle_requests=request_settlement(now, just_ended=just_ended).sent,
        admitted=len(admitted),
        pruned=prune_step(now),  # last: a failure of pruning must not prevent the repairs above
    )
