"""Rows whose message was never confirmed, or was lost → sent again (OCC-7).

A message is lost when its run was not claimed for long, and its queue is past it: holds nothing any more,
or gives out next what was sent later. What waits in the queue is a backlog, and a backlog is not multiplied
by sending it again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from execution.dispatch import dispatch
from execution.limits import limits
from execution.queues import backlog, next_runs
from jobs.events import Event, emit
from occurrences.models import TaskRun, TaskRunQuerySet

BATCH = 500
UNSENT_AFTER = timedelta(seconds=5)
# Beats send side by side: what is told to be sent earlier may be in the queue a little later.
SIDE_BY_SIDE = timedelta(seconds=5)
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
GOLDEN = (5**0.5 - 1) / 2  # multiples of it, without their whole parts, come everywhere soon


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
    since = _lost_since(now)
    rows = TaskRun.objects.unclaimed(since).order_by("dispatched_at")
    waiting = rows.values_list("id", "policy__queue", "dispatched_at")
    found = list(waiting[:limit])
    if len(found) == limit:
        # A long backlog must not hide what another queue has lost: each time another part of it is looked at.
        oldest = found[0][2] or since
        part = oldest + (since - oldest) * (now.timestamp() * GOLDEN % 1)
        found += waiting.filter(dispatched_at__gte=part)[:limit]
    past = _past(sorted({queue for _, queue, _ in found}), since)
    return list({id_: 0 for id_, queue, sent in found if sent and sent <= past.get(queue, NEVER)})[:limit]


def _past(queues: Iterable[str], since: datetime) -> dict[str, datetime]:
    """By queue: what was sent there until then is not there any more. Without those nobody knows it of."""
    coming: dict[str, set[UUID] | None] = {}
    for queue in queues:
        waiting = backlog(queue)
        if waiting is None:
            break  # whoever does not answer is not asked again: each time it may be waited for
        coming[queue] = next_runs(queue) if waiting else None
    named = set[UUID]().union(*filter(None, coming.values()))
    sent = dict(TaskRun.objects.filter(id__in=named).values_list("id", "dispatched_at"))

    def until(runs: set[UUID] | None) -> datetime:
        times = [at for id_ in runs or () if (at := sent.get(id_))]
        return since if runs is None else min(times, default=NEVER) - SIDE_BY_SIDE

    return {queue: until(runs) for queue, runs in coming.items()}


def _lost_since(now: datetime) -> datetime:
    return now - limits().lost_after


def _ids(rows: TaskRunQuerySet, limit: int) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:limit])
