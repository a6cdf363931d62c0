"""Rows whose message was never confirmed, or was lost → sent again (OCC-7).

A message is lost when its run was not claimed for long and its queue holds nothing any more. As long
as messages wait in the queue, they are a backlog, and a backlog is not multiplied by sending it again.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from execution.dispatch import backlog, dispatch
from execution.limits import limits
from jobs.events import Event, emit
from occurrences.models import TaskRun, TaskRunQuerySet

BATCH = 500
UNSENT_AFTER = timedelta(seconds=5)


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
    rows = TaskRun.objects.unclaimed(since).order_by("dispatched_at")
    found = list(rows.values_list("id", "policy__queue")[:limit])
    empty = {queue for queue in {queue for _, queue in found} if backlog(queue) == 0}
    return [id_ for id_, queue in found if queue in empty]


def _ids(rows: TaskRunQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])
