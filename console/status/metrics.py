"""Prometheus metrics, read from the ledger at each scrape: no process keeps a number of its own.

Gauges are a fixed number of queries over partial indexes; counters come from `status/metric_totals.py`.
The client library escapes label values.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db.models import Count, Min
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from punctual.console.status.metric_totals import counters_text
from punctual.execution.models import Process
from punctual.jobs.config.cascade import Config
from punctual.jobs.models import Job
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState

FORGOTTEN_AFTER = timedelta(hours=1)  # a beat this far behind the newest tick is no longer reported
MAX_BEATS = 100
QUEUE = Config().queue


class LedgerCollector(Collector):
    """Collect the gauges of a scrape at `now`."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def collect(self) -> Iterator[Metric]:
        yield from state_gauges()
        yield from backlog_gauges(self.now)
        yield tick_age_gauge(Process.objects.beats().order_by("-seen_at")[:MAX_BEATS], self.now)


def render_metrics(now: datetime) -> bytes:
    registry = CollectorRegistry()
    registry.register(LedgerCollector(now))
    return counters_text(now).encode() + generate_latest(registry)


def state_gauges() -> Iterator[Metric]:
    """Count running and queued occurrences, paused jobs and dead letters."""
    live = (OccurrenceState.RUNNING, OccurrenceState.QUEUED)
    rows = Occurrence.objects.filter(state__in=live).order_by()
    count = dict(rows.values_list("state").annotate(Count("pk")))
    yield gauge("jobs_running_total", "Occurrences running.", count.get(live[0], 0))
    yield gauge("jobs_in_queue_total", "Occurrences due and waiting.", count.get(live[1], 0))
    paused = Job.objects.registered().filter(paused_at__isnull=False).count()
    yield gauge("jobs_paused_total", "Jobs paused.", paused)
    dead = TaskRun.objects.dead().count()
    yield gauge("dlq_size", "Runs in the dead-letter queue.", dead)


def backlog_gauges(now: datetime) -> Iterator[Metric]:
    """Measure the backlog: unfired occurrences, unsent messages, unclaimed runs."""
    due = Occurrence.objects.due(now).aggregate(oldest=Min("run_at"))
    late = "How long the most overdue pending occurrence has waited to be fired."
    yield gauge("lateness_seconds", late, age_seconds(due["oldest"], now))
    unsent = TaskRun.objects.unsent(before=now).count()
    yield gauge("outbox_size", "Runs released, their message not yet accepted.", unsent)
    yield from queue_gauges(now)


def queue_gauges(now: datetime) -> Iterator[Metric]:
    """Measure each queue: workers of one do not serve another."""
    waiting = TaskRun.objects.filter(state=RunState.SCHEDULED, dispatched_at__lte=now).order_by()
    by_queue = waiting.values_list("policy__queue").annotate(Count("pk"), Min("dispatched_at"))
    ages = GaugeMetricFamily(
        "scheduler_queue_age_seconds", "How long a queue's oldest message has waited.", labels=["queue"]
    )
    sizes = GaugeMetricFamily("scheduler_queue_size", "Runs that wait for a worker.", labels=["queue"])
    # The default queue is always reported: an alert on an absent metric never fires.
    rows: dict[str, tuple[int, datetime | None]] = {QUEUE: (0, None)}
    rows |= {queue or QUEUE: (count, oldest) for queue, count, oldest in by_queue}
    for queue, (count, oldest) in rows.items():
        ages.add_metric([queue], age_seconds(oldest, now))
        sizes.add_metric([queue], count)
    yield from (ages, sizes)


def tick_age_gauge(beats: Iterable[Process], now: datetime) -> Metric:
    """Measure tick ages, without beats that stopped long ago: a restart must not raise an alert for ever."""
    metric = GaugeMetricFamily(
        "scheduler_beat_tick_age_seconds", "Time since a beat's last tick.", labels=["beat"]
    )
    newest = None
    for beat in beats:  # newest first
        newest = newest or beat.seen_at
        if newest - beat.seen_at <= FORGOTTEN_AFTER:
            metric.add_metric([beat.name], age_seconds(beat.seen_at, now))
    return metric


def gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"scheduler_{name}", help_text, value=value)


def age_seconds(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0
