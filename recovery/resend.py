"""Rows whose message never came, or was lost → sent again; due retries → scheduled and sent (OCC-7).

Only rows that have waited longer than a healthy dispatch takes are touched, and each resend moves
`dispatched_at`, so a long backlog is asked for again once in a while, not at every sweep.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from execution.dispatch import dispatch
from jobs.events import Event, emit
from occurrences import transitions
from occurrences.models import TaskRun, TaskRunQuerySet

BATCH = 500
UNSENT_AFTER = timedelta(seconds=5)
LOST_AFTER = timedelta(minutes=5)


@dataclass(frozen=True)
class Resent:
    retried: int = 0
    unsent: int = 0
    lost: int = 0


def resend(now: datetime, *, limit: int = BATCH) -> Resent:
    retried = _reschedule(now, limit)
    dispatch(retried, now=now, chords=False)
    unsent = _ids(TaskRun.objects.unsent(now - UNSENT_AFTER).order_by("available_at"), limit)
    lost = _ids(TaskRun.objects.unclaimed(now - LOST_AFTER).order_by("dispatched_at"), limit)
    if unsent or lost:
        sent = dispatch([*unsent, *lost], now=now, chords=False)
        emit(Event.RUN_RESENT, unsent=len(unsent), lost=len(lost), sent=sent.sent)
    return Resent(len(retried), len(unsent), len(lost))


def _reschedule(now: datetime, limit: int) -> list[UUID]:
    """The beat that moves a retry to scheduled is the one that sends it."""
    due = TaskRun.objects.retry_due(now).order_by("available_at", "id")
    if not due.exists():
        return []
    with transaction.atomic():
        ids = list(due.select_for_update(skip_locked=True).values_list("id", flat=True)[:limit])
        transitions.reschedule(ids, now=now)
    return ids


def _ids(rows: TaskRunQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])
