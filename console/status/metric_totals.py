"""Prometheus counters: counted from the ledger, cached in one row, at most a twentieth of the time.

No process keeps a counter: it is counted from rows, and pruned rows are counted in tallies, so it is right
in every process and after pruning. Counting a million rows takes a second or two. The first scrape counts
and stores the text; other scrapes read the stored text until twenty times its cost has passed. A small
ledger is therefore counted at every scrape, a large one now and then.

Durations cannot be counted again once their rows are pruned, so they are added up as rows end.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from time import perf_counter
from typing import Any

from django.db import transaction
from django.db.models import Count, DurationField, ExpressionWrapper, F, Sum
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from punctual.occurrences.models import Attempt, Occurrence
from punctual.occurrences.states import AttemptState
from punctual.recovery import counters as ledger_totals
from punctual.recovery.models import MetricsSnapshot

COST_FACTOR = 20  # counting may take one twentieth of the time
SETTLED_AFTER = timedelta(seconds=5)  # the end of a row is committed by then
SNAPSHOT_ID = 1
SEPARATOR = "\x1f"  # between the names of job and task; no form or file accepts it in a name

Durations = dict[str, list[float]]  # name: [count, seconds]


def counters_text(now: datetime) -> str:
    """Return the counters: counted now, or the stored text while it is fresh enough."""
    # `durations` is large, and only needed to count.
    snapshot, _ = MetricsSnapshot.objects.defer("durations").get_or_create(
        pk=SNAPSHOT_ID, defaults={"claimed_at": now - timedelta(days=1), "counted_until": None}
    )
    due = snapshot.claimed_at + snapshot.cost * COST_FACTOR
    # The scrape that moves `claimed_at` counts; the others read the stored text.
    claimed = due <= now and MetricsSnapshot.objects.filter(
        pk=SNAPSHOT_ID, claimed_at=snapshot.claimed_at
    ).update(claimed_at=now)
    return recount(snapshot, now) if claimed or not snapshot.text else snapshot.text


def recount(snapshot: MetricsSnapshot, now: datetime) -> str:
    started = perf_counter()
    durations, until = add_durations(snapshot, now)
    text = render_counters(
        [occurrence_counter(), attempt_counter(), recovery_counter(), *duration_summaries(durations)]
    )
    changed = {
        "text": text,
        "durations": durations,
        "counted_until": until,
        "cost": timedelta(seconds=perf_counter() - started),
    }
    with transaction.atomic():
        # Guarded by what was read: two scrapes that count at once must not add the same durations twice.
        MetricsSnapshot.objects.filter(pk=SNAPSHOT_ID, counted_until=snapshot.counted_until).update(**changed)
    return text


def render_counters(metrics: Iterable[Metric]) -> str:
    registry = CollectorRegistry()
    registry.register(_Given(metrics))
    return generate_latest(registry).decode()


class _Given(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self.metrics


def occurrence_counter() -> Metric:
    help_text = "Instants whose occurrence is over."
    counter = CounterMetricFamily("scheduler_job_occurrences", help_text, labels=["job", "status"])
    return add_samples(counter, ledger_totals.occurrence_totals())


def attempt_counter() -> Metric:
    help_text = "Attempts that are over."
    counter = CounterMetricFamily("scheduler_task_attempts", help_text, labels=["job", "task", "status"])
    totals = ledger_totals.attempt_totals().items()
    return add_samples(counter, {(*names, attempt_status(state)): count for (*names, state), count in totals})


def attempt_status(state: str) -> str:
    return "failure" if state == AttemptState.FAILED else state


def recovery_counter() -> Metric:
    help_text = "Occurrences that recovery caught up."
    counter = CounterMetricFamily("scheduler_recovery_runs", help_text, labels=["job", "strategy"])
    return add_samples(counter, ledger_totals.recovery_totals())


def add_samples(counter: CounterMetricFamily, samples: Mapping[tuple[str, ...], int]) -> Metric:
    for labels, count in sorted(samples.items()):
        counter.add_metric(labels, count)
    return counter


def add_durations(snapshot: MetricsSnapshot, now: datetime) -> tuple[Durations, datetime]:
    """Add the durations of rows that ended since the last count to the stored ones."""
    until = now - SETTLED_AFTER
    took = ExpressionWrapper(F("finished_at") - F("started_at"), DurationField())
    ended = {"finished_at__lte": until, "started_at__isnull": False}
    if snapshot.counted_until is not None:
        ended["finished_at__gt"] = snapshot.counted_until
    jobs = Occurrence.objects.filter(**ended).order_by().values_list("job__name")
    runs = Attempt.objects.filter(**ended).order_by()
    tasks = runs.values_list("run__task__job__name", "run__task__name")
    durations = {name: list(pair) for name, pair in snapshot.durations.items()}
    for *names, count, seconds in [
        *jobs.annotate(Count("pk"), spent=Sum(took)),
        *tasks.annotate(Count("pk"), spent=Sum(took)),
    ]:
        total = durations.setdefault(SEPARATOR.join(names), [0, 0.0])
        total[0] += count
        total[1] += seconds.total_seconds() if seconds else 0.0
    return durations, until


def duration_summaries(durations: Mapping[str, Any]) -> list[Metric]:
    jobs = SummaryMetricFamily(
        "scheduler_job_execution_duration_seconds", "From first claim to end.", labels=["job"]
    )
    tasks = SummaryMetricFamily(
        "scheduler_task_execution_duration_seconds", "Time in a task's attempts.", labels=["job", "task"]
    )
    for name, (count, seconds) in durations.items():
        labels = name.split(SEPARATOR)
        (jobs if len(labels) == 1 else tasks).add_metric(labels, count, seconds)
    return [jobs, tasks]
