"""Rows whose message was never confirmed, or was lost → sent again (OCC-7).

A message is lost when its run was not claimed for long, and its queue is past it: holds nothing any more,
or gives out next what was sent later. What waits in the queue is a backlog, and a backlog is not multiplied
by sending it again.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db.models import Min

from execution.dispatch import dispatch
from execution.limits import limits
from execution.queues import backlog, next_runs
from jobs.events import Event, emit
from occurrences.models import TaskRun, TaskRunQuerySet

BATCH = 500
UNSENT_AFTER = timedelta(seconds=5)
# Beats send side by side: what is told to be sent earlier may be in the queue a little later.
SIDE_BY_SIDE = timedelta(seconds=5)
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Resent:
    unsent: int = 0
    lost: int = 0


def resend(now: datetime, *, limit: int = BATCH) -> Resent:
    unsent = _ids(TaskRun.objects.unsent(now - UNSENT_AFTER).order_by("available_at"), limit)
    lost_since = now - limits().lost_after
    lost = _lost(lost_since, limit)
    if unsent or lost:
        sent = dispatch([*unsent, *lost], now=now, chords=False, lost_since=lost_since).sent
        if sent:
            emit(Event.RUN_RESENT, unsent=len(unsent), lost=len(lost), sent=sent)
    return Resent(len(unsent), len(lost))


def _lost(since: datetime, limit: int) -> list[UUID]:
    """Queue by queue: one with a long backlog must not hide what another has lost."""
    rows = TaskRun.objects.unclaimed(since).order_by("dispatched_at")
    lost: list[UUID] = []
    past: dict[str, datetime] = {}
    more = True
    while more and len(lost) < limit:
        others = rows.exclude(policy__queue__in=list(past)) if past else rows
        found = list(others.values_list("id", "policy__queue", "dispatched_at")[:limit])
        fresh = {queue for _, queue, _ in found} - past.keys()
        past |= {queue: _past(queue, since) for queue in fresh}
        lost += [id_ for id_, queue, sent in found if sent is not None and sent <= past[queue]]
        more = len(found) == limit and bool(fresh)
    return lost[:limit]


def _past(queue: str, since: datetime) -> datetime:
    """What was sent there until then is not there any more."""
    waiting = backlog(queue)
    if waiting == 0:
        return since
    coming = next_runs(queue) if waiting else ()  # None: the broker does not answer
    sent = TaskRun.objects.filter(id__in=coming).aggregate(at=Min("dispatched_at"))["at"]
    return min(sent - SIDE_BY_SIDE, since) if sent else NEVER


def _ids(rows: TaskRunQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])
