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
    """Of `unsent` and `lost` ones, so many are `sent`, and so many `failed`: the broker did not take them."""

    unsent: int = 0
    lost: int = 0
    sent: int = 0
    failed: int = 0


def resend(now: datetime, *, limit: int = BATCH) -> Resent:
    unsent, lost = _ids(unconfirmed(now).order_by("available_at"), limit), lost_messages(now, limit=limit)
    if not unsent and not lost:
        return Resent()
    told = dispatch([*unsent, *lost], now=now, chords=False, lost_since=_lost_since(now))
    if told.sent:
        emit(Event.RUN_RESENT, unsent=len(unsent), lost=len(lost), sent=told.sent)
    return Resent(len(unsent), len(lost), told.sent, told.failed)


def unconfirmed(now: datetime) -> TaskRunQuerySet:
    return TaskRun.objects.unsent(now - UNSENT_AFTER)


def lost_messages(now: datetime, *, limit: int = BATCH) -> list[UUID]:
    """Queue by queue: one with a long backlog must not hide what another has lost."""
    since = _lost_since(now)
    rows = TaskRun.objects.unclaimed(since).order_by("dispatched_at")
    lost: list[UUID] = []
    past: dict[str, datetime] = {}
    more = True
    while more and len(lost) < limit:
        others = rows.exclude(policy__queue__in=list(past)) if past else rows
        found = list(others.values_list("id", "policy__queue", "dispatched_at")[:limit])
        fresh = sorted({queue for _, queue, _ in found} - past.keys())
        for queue in fresh:
            if (until := _past(queue, since)) is None:
                return lost  # whoever does not answer is not asked again: each time it may be waited for
            past[queue] = until
        lost += [id_ for id_, queue, sent in found if sent is not None and sent <= past[queue]]
        more = len(found) == limit and bool(fresh)
    return lost[:limit]


def _past(queue: str, since: datetime) -> datetime | None:
    """What was sent there until then is not there any more. None: the broker does not answer."""
    waiting = backlog(queue)
    if not waiting:
        return None if waiting is None else since
    sent = TaskRun.objects.filter(id__in=next_runs(queue)).aggregate(at=Min("dispatched_at"))["at"]
    return min(sent - SIDE_BY_SIDE, since) if sent else NEVER


def _lost_since(now: datetime) -> datetime:
    return now - limits().lost_after


def _ids(rows: TaskRunQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])
