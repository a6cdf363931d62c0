"""Find queues in which runs wait and that no live worker consumes.

Other queues may flow meanwhile: workers answer pings and take messages, only not these. `/readyz`, `/metrics`
and `doctor` show the same decision.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min, Q
from django.db.models.fields.json import KT

from punctual.execution.supervision.presence import live_consumers
from punctual.jobs.config.cascade import Config
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import RunState

MAX_UNSERVED = timedelta(seconds=30)  # a worker that restarts is back by then
DEFAULT_QUEUE = Config().queue


@dataclass(frozen=True)
class QueueCoverage:
    """A queue: how many live workers consume it, how many runs wait for a worker, and since when."""

    name: str
    workers: int
    waiting: int = 0
    oldest_at: datetime | None = None  # when the first of them became available
    sent: int = 0  # of those that wait: their messages are with the broker
    sent_at: datetime | None = None  # when the first message was sent

    def unserved(self, now: datetime) -> bool:
        """Whether runs wait here without a worker that could take them."""
        return not self.workers and self.oldest_at is not None and now - self.oldest_at > MAX_UNSERVED


def queue_coverage(now: datetime) -> list[QueueCoverage]:
    """Return every queue in which runs wait or that a worker consumes, and the default queue, by name."""
    # One of these conditions holds for every row: they name the partial indexes.
    unparked = Q(dispatched_at__isnull=True, parked_at=None) | Q(dispatched_at__isnull=False, parked_at=None)
    released = unparked | Q(parked_at__isnull=False)
    runs = TaskRun.objects.filter(released, state=RunState.SCHEDULED, available_at__lte=now).order_by()
    by_queue = runs.values_list(KT("policy__queue"))
    facts = (Count("pk"), Min("available_at"), Count("dispatched_at"), Min("dispatched_at"))
    waiting = {queue or DEFAULT_QUEUE: row for queue, *row in by_queue.annotate(*facts)}
    workers = live_consumers(now)
    names = sorted({DEFAULT_QUEUE, *waiting, *workers})
    return [QueueCoverage(name, workers[name], *waiting.get(name, ())) for name in names]


def unserved_queues(now: datetime) -> list[QueueCoverage]:
    return [queue for queue in queue_coverage(now) if queue.unserved(now)]


def describe_unserved(queues: list[QueueCoverage], now: datetime) -> str:
    """Say which queues lack a worker, how many runs wait in each, and for how long."""
    ages = [(now - queue.oldest_at).total_seconds() if queue.oldest_at else 0.0 for queue in queues]
    parts = [
        f"{queue.name} (runs that wait: {queue.waiting}, for up to {age:.0f} s)"
        for queue, age in zip(queues, ages, strict=True)
    ]
    return f"no live worker consumes {', '.join(parts)}"
