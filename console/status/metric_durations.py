"""Histograms of durations for Prometheus: rows are added up as they end, because pruned rows cannot be.

A histogram is stored as a list: the seconds spent, then the number of rows in each bucket, not cumulated.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from django.db.models import Case, Count, DurationField, ExpressionWrapper, F, QuerySet, Sum, Value, When
from prometheus_client.core import HistogramMetricFamily, Metric

from punctual.occurrences.models import Attempt, Occurrence
from punctual.recovery.models import MetricsSnapshot

BOUNDS = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0)  # seconds, inclusive
BUCKETS = len(BOUNDS) + 1  # the last one has no bound
SETTLED_AFTER = timedelta(seconds=5)  # the end of a row is committed by then
SEPARATOR = "\x1f"  # between the names of job and task; no form or file accepts it in a name

Names = tuple[str, ...]  # of a job, or of a job and its task
Histogram = list[float]


def add_durations(snapshot: MetricsSnapshot, now: datetime) -> tuple[dict[str, Histogram], datetime]:
    """Add the durations of rows that ended since the last count to the stored ones."""
    until = now - SETTLED_AFTER
    ended: dict[str, Any] = {"finished_at__lte": until, "started_at__isnull": False}
    if snapshot.counted_until is not None:
        ended["finished_at__gt"] = snapshot.counted_until
    histograms = {name: list(histogram) for name, histogram in snapshot.durations.items()}
    rows = [
        *_by_bucket(Occurrence.objects.filter(**ended), "job__name"),
        *_by_bucket(Attempt.objects.filter(**ended), "run__task__job__name", "run__task__name"),
    ]
    for *names, bucket, count, spent in rows:
        histogram = histograms.setdefault(SEPARATOR.join(names), empty_histogram())
        histogram[0] += spent.total_seconds() if spent else 0.0
        histogram[1 + bucket] += count
    return histograms, until


def _by_bucket(rows: QuerySet[Any], *names: str) -> Iterable[Any]:
    took = ExpressionWrapper(F("finished_at") - F("started_at"), DurationField())
    bounds = [When(took__lte=timedelta(seconds=bound), then=Value(n)) for n, bound in enumerate(BOUNDS)]
    bucket = Case(*bounds, default=Value(len(BOUNDS)))
    grouped = rows.order_by().annotate(took=took, bucket=bucket).values_list(*names, "bucket")
    return list(grouped.annotate(Count("pk"), spent=Sum("took")))


def empty_histogram() -> Histogram:
    return [0.0] * (1 + BUCKETS)


def duration_histograms(stored: Mapping[str, Histogram], known: Iterable[Names]) -> list[Metric]:
    """Return the histograms of jobs and of tasks; those that never ran are empty, not absent."""
    jobs = HistogramMetricFamily(
        "scheduler_job_execution_duration_seconds", "From first claim to end.", labels=["job"]
    )
    tasks = HistogramMetricFamily(
        "scheduler_task_execution_duration_seconds", "Time in a task's attempts.", labels=["job", "task"]
    )
    names = {tuple(name.split(SEPARATOR)) for name in stored} | set(known)
    for labels in sorted(names):
        spent, *counts = stored.get(SEPARATOR.join(labels)) or empty_histogram()
        bounds = [*map(str, BOUNDS), "+Inf"]
        buckets = list(zip(bounds, accumulate(counts), strict=True))
        (jobs if len(labels) == 1 else tasks).add_metric(list(labels), buckets, spent)
    return [jobs, tasks]
