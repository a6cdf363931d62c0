"""The ledger at one instant → Prometheus metrics; no process keeps a number, so each one is right.

Gauges are a fixed number of queries over partial indexes; counters are `console.totals`. Label values
are escaped by the client library.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db.models import Count, Min
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from beat.models import Beat
from console.totals import totals
from jobs.config import Config
from jobs.models import Job
from occurrences.models import Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState

FORGOTTEN_AFTER = timedelta(hours=1)  # a beat that fell silent this long before the newest tick
MOST_BEATS = 100
QUEUE = Config().queue


class Ledger(Collector):
    """What a scrape at `now` reads."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def collect(self) -> Iterator[Metric]:
        yield from standings()
        yield from backlog(self.now)
        yield tick_ages(Beat.objects.order_by("-ticked_at")[:MOST_BEATS], self.now)


def exposition(now: datetime) -> bytes:
    registry = CollectorRegistry()
    registry.register(Ledger(now))
    return totals(now).encode() + generate_latest(registry)


def standings() -> Iterator[Metric]:
    """How much is in each state right now."""
    live = (OccurrenceState.RUNNING, OccurrenceState.QUEUED)
    rows = Occurrence.objects.filter(state__in=live).order_by()
    count = dict(rows.values_list("state").annotate(Count("pk")))
    yield gauge("jobs_running_total", "Occurrences running.", count.get(live[0], 0))
    yield gauge("jobs_in_queue_total", "Occurrences due and waiting.", count.get(live[1], 0))
    paused = Job.objects.registered().filter(paused_at__isnull=False).count()
    yield gauge("jobs_paused_total", "Jobs paused.", paused)
    dead = TaskRun.objects.dead().count()
    yield gauge("dlq_size", "Runs in the dead-letter queue.", dead)


def backlog(now: datetime) -> Iterator[Metric]:
    """How far behind: unfired occurrences, unsent messages, runs no worker has come for."""
    due = Occurrence.objects.due(now).aggregate(oldest=Min("run_at"))
    late = "How long the most overdue pending occurrence has waited to be fired."
    yield gauge("lateness_seconds", late, age(due["oldest"], now))
    unsent = TaskRun.objects.unsent(before=now).count()
    yield gauge("outbox_size", "Runs released, their message not yet accepted.", unsent)
    yield from queues(now)


def queues(now: datetime) -> Iterator[Metric]:
    """Queue by queue: a worker for one of them is none for another."""
    waiting = TaskRun.objects.filter(state=RunState.SCHEDULED, dispatched_at__lte=now).order_by()
    found = waiting.values_list("policy__queue").annotate(Count("pk"), Min("dispatched_at"))
    ages = GaugeMetricFamily(
        "scheduler_queue_age_seconds", "How long a queue's oldest message has waited.", labels=["queue"]
    )
    sizes = GaugeMetricFamily("scheduler_queue_size", "Runs that wait for a worker.", labels=["queue"])
    # The default one is always there: an alert on a metric that is absent never comes.
    rows: dict[str, tuple[int, datetime | None]] = {QUEUE: (0, None)}
    rows |= {queue or QUEUE: (count, oldest) for queue, count, oldest in found}
    for queue, (count, oldest) in rows.items():
        ages.add_metric([queue], age(oldest, now))
        sizes.add_metric([queue], count)
    yield from (ages, sizes)


def tick_ages(beats: Iterable[Beat], now: datetime) -> Metric:
    """Beats that stopped long ago are left out, so that a restart does not alarm for ever."""
    metric = GaugeMetricFamily(
        "scheduler_beat_tick_age_seconds", "Time since a beat's last tick.", labels=["beat"]
    )
    newest = None
    for beat in beats:  # newest first
        newest = newest or beat.ticked_at
        if newest - beat.ticked_at <= FORGOTTEN_AFTER:
            metric.add_metric([beat.name], age(beat.ticked_at, now))
    return metric


def gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"scheduler_{name}", help_text, value=value)


def age(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0
