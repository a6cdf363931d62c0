"""Now → everything the safety net has to do at this moment, done once; the counts of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from execution.dispatch import dispatch
from occurrences.models import Occurrence, TaskRun
from recovery.pruning import prune_some
from recovery.reaper import reap
from recovery.replaced import end_replaced
from recovery.resend import UNSENT_AFTER, resend
from recovery.stale import end_overdue
from recovery.unsettled import ask_to_settle, unfinalized, unsettled
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


def outstanding(now: datetime) -> Swept:
    """What a sweep would find at this moment, counted; nothing is done. Pruning goes by its own clock."""
    return Swept(
        lost=TaskRun.objects.expired(now).count(),
        stale=Occurrence.objects.overdue(now).count(),
        resent=TaskRun.objects.unsent(now - UNSENT_AFTER).count(),
        asked=unsettled(now).count() + unfinalized(now).count(),
        admitted=Occurrence.objects.waiting().count(),
    )


def run_once(now: datetime) -> Swept:
    reaped = reap(now)
    stale = end_overdue(now)
    replaced = end_replaced(now)
    admitted = admit_stranded(now)
    dispatch(reaped.settled.released, now=now, bundles=False)  # what died with its worker shall die alone
    dispatch([*stale.released, *replaced.released, *admitted], now=now)
    resent = resend(now)
    return Swept(
        lost=reaped.lost,
        stale=len(stale.finished),
        resent=resent.unsent + resent.lost,
        asked=ask_to_settle(now, just_ended=(*reaped.settled.finished, *stale.finished, *replaced.finished)),
        admitted=len(admitted),
        pruned=prune_some(now),  # last: whatever comes of it, what is abandoned has been returned
    )
