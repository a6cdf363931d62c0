"""Prometheus counters: counted from the ledger, cached in one row, at most a twentieth of the time.

No process keeps a counter: it is counted from rows, and pruned rows are counted in tallies, so it is right
in every process and after pruning. Counting a million rows takes a second or two. The first scrape counts
and stores the text; other scrapes read the stored text until twenty times its cost has passed. A small
ledger is therefore counted at every scrape, a large one now and then.

Every job and task that exists has all its series, from 0 on: an alert on an increase does not see the first
failure of a series that appears with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import product
from time import perf_counter

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from punctual.console.status.metric_durations import Names, add_durations, duration_histograms
from punctual.jobs.config.choices import Recovery
from punctual.jobs.models import Job, Task
from punctual.occurrences.states import ATTEMPT_FINAL, OCCURRENCE_FINAL, AttemptState
from punctual.recovery import counters as ledger_totals
from punctual.recovery.models import MetricsSnapshot

COST_FACTOR = 20  # counting may take one twentieth of the time
SNAPSHOT_ID = 1


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
    jobs, tasks = known_jobs(), known_tasks()
    counters = [occurrence_counter(jobs), attempt_counter(tasks), recovery_counter(jobs)]
    text = render_counters([*counters, *duration_histograms(durations, [*jobs, *tasks])])
    # Guarded by what was read: two scrapes that count at once must not add the same durations twice.
    stored = MetricsSnapshot.objects.filter(pk=SNAPSHOT_ID, counted_until=snapshot.counted_until).update(
        text=text,
        durations=durations,
        counted_until=until,
        cost=timedelta(seconds=perf_counter() - started),
    )
    # Another scrape was quicker. Its text is what the next scrape shows: a counter must not fall back to it.
    return text if stored else MetricsSnapshot.objects.values_list("text", flat=True).get(pk=SNAPSHOT_ID)


def known_jobs() -> list[Names]:
    return list(Job.objects.registered().order_by().values_list("name"))


def known_tasks() -> list[Names]:
    tasks = Task.objects.current().filter(job__removed_at=None).order_by()
    return list(tasks.values_list("job__name", "name"))


def render_counters(metrics: Iterable[Metric]) -> str:
    registry = CollectorRegistry()
    registry.register(_Given(metrics))
    return generate_latest(registry).decode()


class _Given(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self.metrics


def occurrence_counter(jobs: Sequence[Names]) -> Metric:
    help_text = "Instants whose occurrence is over."
    counter = CounterMetricFamily("scheduler_job_occurrences", help_text, labels=["job", "status"])
    return add_samples(counter, zeros(jobs, OCCURRENCE_FINAL) | ledger_totals.occurrence_totals())


def attempt_counter(tasks: Sequence[Names]) -> Metric:
    help_text = "Attempts that are over."
    counter = CounterMetricFamily("scheduler_task_attempts", help_text, labels=["job", "task", "status"])
    totals = zeros(tasks, ATTEMPT_FINAL) | ledger_totals.attempt_totals()
    by_status = {(*names, attempt_status(state)): count for (*names, state), count in totals.items()}
    return add_samples(counter, by_status)


def attempt_status(state: str) -> str:
    return "failure" if state == AttemptState.FAILED else state


def recovery_counter(jobs: Sequence[Names]) -> Metric:
    help_text = "Occurrences that recovery caught up."
    counter = CounterMetricFamily("scheduler_recovery_runs", help_text, labels=["job", "strategy"])
    return add_samples(counter, zeros(jobs, tuple(Recovery)) | ledger_totals.recovery_totals())


def zeros(names: Iterable[Names], labels: Iterable[str]) -> dict[Names, int]:
    return {(*name, str(label)): 0 for name, label in product(names, labels)}


def add_samples(counter: CounterMetricFamily, samples: Mapping[Names, int]) -> Metric:
    for labels, count in sorted(samples.items()):
        counter.add_metric(list(labels), count)
    return counter
