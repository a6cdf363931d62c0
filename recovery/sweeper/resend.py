"""Send messages again that the broker never confirmed, or lost (OCC-7).

A message counts as lost when its run stayed unclaimed for `lost_after` and its queue is past it: the queue is
empty, or its next message was sent later. A message that still waits in the queue is a backlog and is not
sent again, because that would only lengthen the queue.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from punctual.conf import current_settings
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.broker.queues import backlog, next_runs
from punctual.jobs.events import Event, emit
from punctual.occurrences.models import TaskRun
from punctual.occurrences.querysets import TaskRunQuerySet

BATCH = 500
UNSENT_AFTER = timedelta(seconds=5)
# Several beats send at the same time, so messages may enter a queue slightly out of order of `dispatched_at`.
REORDERING_TOLERANCE = timedelta(seconds=5)
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
GOLDEN = (5**0.5 - 1) / 2  # golden-ratio sequence: samples cover [0, 1) evenly


@dataclass(frozen=True)
class Resent:
    """Of the `unsent` and `lost` messages, `sent` were accepted by the broker and `failed` were not."""

    unsent: int = 0
    lost: int = 0
    sent: int = 0
    failed: int = 0


def resend(now: datetime, *, limit: int = BATCH) -> Resent:
    unsent = list(unconfirmed_runs(now).order_by("available_at").values_list("id", flat=True)[:limit])
    lost = lost_messages(now, limit=limit)
    if not unsent and not lost:
        return Resent()
    dispatched = dispatch([*unsent, *lost], now=now, chords=False, lost_since=_lost_since(now))
    if dispatched.sent:
        emit(Event.RUN_RESENT, unsent=len(unsent), lost=len(lost), sent=dispatched.sent)
    return Resent(len(unsent), len(lost), dispatched.sent, dispatched.failed)


def unconfirmed_runs(now: datetime) -> TaskRunQuerySet:
    return TaskRun.objects.unsent(now - UNSENT_AFTER)


def lost_messages(now: datetime, *, limit: int = BATCH) -> list[UUID]:
    since = _lost_since(now)
    rows = TaskRun.objects.unclaimed(since).order_by("dispatched_at")
    columns = rows.values_list("id", "policy__queue", "dispatched_at")
    unclaimed = list(columns[:limit])
    if len(unclaimed) == limit:
        # A long backlog of one queue must not hide what another has lost: sample another part each time.
        oldest = unclaimed[0][2] or since
        sample_from = oldest + (since - oldest) * (now.timestamp() * GOLDEN % 1)
        unclaimed += columns.filter(dispatched_at__gte=sample_from)[:limit]
    delivered_until = _delivered_until(sorted({queue for _, queue, _ in unclaimed}), since)
    lost = {id_: 0 for id_, queue, sent in unclaimed if sent and sent <= delivered_until.get(queue, NEVER)}
    return list(lost)[:limit]


def _delivered_until(queues: Iterable[str], since: datetime) -> dict[str, datetime]:
    """By queue, the instant up to which every message sent has left it; unknown queues are left out."""
    next_by_queue: dict[str, set[UUID] | None] = {}
    for queue in queues:
        length = backlog(queue)
        if length is None:
            break  # the broker does not answer; asking for other queues would wait for each timeout
        next_by_queue[queue] = next_runs(queue) if length else None
    known = set[UUID]().union(*filter(None, next_by_queue.values()))
    sent_at = dict(TaskRun.objects.filter(id__in=known).values_list("id", "dispatched_at"))

    def until(runs: set[UUID] | None) -> datetime:
        times = [at for id_ in runs or () if (at := sent_at.get(id_))]
        return since if runs is None else min(times, default=NEVER) - REORDERING_TOLERANCE

    return {queue: until(runs) for queue, runs in next_by_queue.items()}


def _lost_since(now: datetime) -> datetime:
    return now - current_settings().lost_after
