"""Now → everything the safety net has to do at this moment, done once; the counts of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from execution.dispatch import dispatch
from recovery.pruning import prune_some
from recovery.reaper import reap
from recovery.replaced import end_replaced
from recovery.resend import resend
from recovery.stale import end_overdue
from recovery.unsettled import ask_to_settle
from recovery.waiting import admit_stranded

INTERVAL = timedelta(seconds=2)


@dataclass(frozen=True)
class Swept:
    lost: int
    stale: int
    resent: int
    asked: int
    admitted: int
    pruned: int = 0


def run_once(now: datetime) -> Swept:
    reaped = reap(now)
    stale = end_overdue(now)
    replaced = end_replaced(now)
    admitted = admit_stranded(now)
    dispatch(reaped.settled.released, now=now, bundles=False)  # what died with its worker shall die alone
    dispatch([*stale.released, *replaced.released, *admitted], now=now)
    just_ended = (*reaped.settled.finished, *stale.finished, *replaced.finished)
    return Swept(
        lost=reaped.lost,
        stale=len(stale.finished),
        resent=resend(now).sent,
        asked=ask_to_settle(now, just_ended=just_ended).sent,
        admitted=len(admitted),
        pruned=prune_some(now),  # last: whatever comes of it, what is abandoned has been returned
    )
