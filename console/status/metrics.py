"""Prometheus metrics, read from the ledger at each scrape: no process keeps a number of its own.

Gauges are a fixed number of queries over partial indexes; counters come from `status/metric_totals.py`.
The client library escapes label values.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db.models import Count, Min, Sum
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from punctual.console.status.metric_totals import counters_text
from punctual.console.status.queue_coverage import queue_coverage
from punctual.execution.broker.message_shape import Problem
from punctual.execution.models import Process, Rejection
from punctual.jobs.models import HELD, Job
from punctual.occurrences.active_states import Activity, activity_of_occurrence
from punctual.occurrences.models import Occurrence, TaskRun

FORGOTTEN_AFTER = timedelta(hours=1)  # a beat this far behind the newest tick is no longer reported
MAX_BEATS = 100


class LedgerCollector(Collector):
    """Collect the gauges of a scrape at `now`."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def collect(self) -> Iterator[Metric]:
        yield from state_gauges()
        yield from backlog_gauges(self.now)
        yield rejection_counter()
        yield tick_age_gauge(Process.objects.beats().order_by("-seen_at")[:MAX_BEATS], self.now)


def render_metrics(now: datetime) -> bytes:
    registry = CollectorRegistry()
    registry.register(LedgerCollector(now))
    return counters_text(now).encode() + generate_latest(registry)


def state_gauges() -> Iterator[Metric]:
    """Count active and queued occurrences, paused jobs and dead letters."""
    active = Occurrence.objects.active().annotate(activity=activity_of_occurrence()).order_by()
    count = dict(active.values_list("activity").annotate(Count("pk")))
    yield gauge("jobs_running", "Occurrences of which a worker holds a run.", count.get(Activity.RUNNING, 0))
    sent = "Occurrences of which no worker holds a run: the next one waits for a worker."
    yield gauge("jobs_dispatched", sent, count.get(Activity.DISPATCHED, 0))
    waiting = "Occurrences of which no worker holds a run: one waits for its next attempt."
    yield gauge("jobs_retrying", waiting, count.get(Activity.RETRYING, 0))
    yield gauge("jobs_in_queue", "Occurrences due and waiting.", Occurrence.objects.waiting().count())
    paused = Job.objects.registered().filter(HELD).count()
    yield gauge("jobs_paused", "Jobs paused.", paused)
    yield gauge("dlq_size", "Runs in the dead-letter queue.", TaskRun.objects.dead().count())


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
    ages = queue_gauge("queue_age_seconds", "How long a queue's oldest message has waited.")
    sizes = queue_gauge("queue_size", "Runs that wait for a worker.")
    unserved = queue_gauge("queue_unserved", "1 if runs wait and no live worker consumes the queue, else 0.")
    # Contains the default queue always: an alert on an absent metric never fires.
    for queue in queue_coverage(now):
        ages.add_metric([queue.name], age_seconds(queue.sent_at, now))
        sizes.add_metric([queue.name], queue.sent)
        unserved.add_metric([queue.name], queue.unserved(now))
    yield from (ages, sizes, unserved)


def queue_gauge(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"scheduler_{name}", help_text, labels=["queue"])


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


def rejection_counter() -> Metric:
    """Count messages that workers could not read; workers keep the counts in rows."""
    counter = CounterMetricFamily(
        "scheduler_messages_rejected", "Messages that workers could not read.", labels=["problem"]
    )
    counts = dict.fromkeys(Problem, 0)
    counts |= dict(Rejection.objects.order_by().values_list("problem").annotate(Sum("count")))
    for problem, count in sorted(counts.items()):
        counter.add_metric([problem], count)
    return counter


def gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"scheduler_{name}", help_text, value=value)


def age_seconds(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0
