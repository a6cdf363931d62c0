"""Rows whose message was never confirmed, or was lost → sent again (OCC-7).

Only rows that have waited longer than a healthy dispatch takes are touched, and each resend moves
`dispatched_at`, so a long backlog is asked for again once in a while, not at every sweep.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from execution.dispatch import dispatch
from jobs.events import Event, emit
from occurrences.models import TaskRun, TaskRunQuerySet

BATCH = 500
UNSENT_AFTER = timedelta(seconds=5)
LOST_AFTER = timedelta(minutes=5)


@dataclass(frozen=True)
class Resent:
    unsent: int = 0
    lost: int = 0


def resend(now: datetime, *, limit: int = BATCH) -> Resent:
    unsent = _ids(TaskRun.objects.unsent(now - UNSENT_AFTER).order_by("available_at"), limit)
    lost = _ids(TaskRun.objects.unclaimed(now - LOST_AFTER).order_by("dispatched_at"), limit)
    if unsent or lost:
        sent = dispatch([*unsent, *lost], now=now, chords=False).sent
        if sent:
            emit(Event.RUN_RESENT, unsent=len(unsent), lost=len(lost), sent=sent)
    return Resent(len(unsent), len(lost))


def _ids(rows: TaskRunQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])
