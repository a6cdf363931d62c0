"""The ledger → counters for Prometheus, counted at most a twentieth of the time.

A counter is right in every process and after pruning because no process keeps one: it is counted from
rows, and rows that were pruned are counted in tallies. Counting a million rows takes a second or two, so
whoever scrapes first counts and stores the text; until twenty times its cost have passed, everybody else
reads that. A small ledger is therefore counted at every scrape, a large one now and then.

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

from console.models import Snapshot
from occurrences.models import Attempt, Occurrence
from occurrences.states import AttemptState
from recovery import totals as ledger_totals

SHARE = 20  # counting may take this part of the time
SETTLED_AFTER = timedelta(seconds=5)  # a row's end is committed by then
ONLY = 1
SEPARATOR = "\x1f"  # between a job's and a task's name; neither can hold it through a form or a file

Spent = dict[str, list[float]]  # name → [how many, seconds]


def totals(now: datetime) -> str:
    """The counters, fresh or as fresh as they may be."""
    # Durations are read by whoever counts, and by nobody else.
    held, _ = Snapshot.objects.defer("durations").get_or_create(
        pk=ONLY, defaults={"claimed_at": now - timedelta(days=1), "counted_until": None}
    )
    due = held.claimed_at + held.cost * SHARE
    # Whoever moves `claimed_at` counts; the others read what is there.
    mine = due <= now and Snapshot.objects.filter(pk=ONLY, claimed_at=held.claimed_at).update(claimed_at=now)
    return refreshed(held, now) if mine or not held.text else held.text


def refreshed(held: Snapshot, now: datetime) -> str:
    started = perf_counter()
    durations, until = spent(held, now)
    text = exposed([occurrences(), attempts(), recoveries(), *summaries(durations)])
    changed = {
        "text": text,
        "durations": durations,
        "counted_until": until,
        "cost": timedelta(seconds=perf_counter() - started),
    }
    with transaction.atomic():
        # Only on top of what was read: two that count at once must not both add the same durations.
        Snapshot.objects.filter(pk=ONLY, counted_until=held.counted_until).update(**changed)
    return text


def exposed(metrics: Iterable[Metric]) -> str:
    registry = CollectorRegistry()
    registry.register(_Given(metrics))
    return generate_latest(registry).decode()


class _Given(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self.metrics


def occurrences() -> Metric:
    told = "Instants whose occurrence is over."
    counter = CounterMetricFamily("scheduler_job_occurrences", told, labels=["job", "status"])
    return filled(counter, ledger_totals.occurrences())


def attempts() -> Metric:
    told = "Attempts that are over."
    counter = CounterMetricFamily("scheduler_task_attempts", told, labels=["job", "task", "status"])
    return filled(counter, {(*names, attempt_status(state)): count
                            for (*names, state), count in ledger_totals.attempts().items()})  # fmt: skip


def attempt_status(state: str) -> str:
    return "failure" if state == AttemptState.FAILED else state


def recoveries() -> Metric:
    told = "Occurrences that recovery made up for."
    counter = CounterMetricFamily("scheduler_recovery_runs", told, labels=["job", "strategy"])
    return filled(counter, ledger_totals.recoveries())


def filled(counter: CounterMetricFamily, found: Mapping[tuple[str, ...], int]) -> Metric:
    for labels, count in sorted(found.items()):
        counter.add_metric(labels, count)
    return counter


def spent(held: Snapshot, now: datetime) -> tuple[Spent, datetime]:
    """What was spent before, and what has ended since."""
    until = now - SETTLED_AFTER
    took = ExpressionWrapper(F("finished_at") - F("started_at"), DurationField())
    ended = {"finished_at__lte": until, "started_at__isnull": False}
    if held.counted_until is not None:
        ended["finished_at__gt"] = held.counted_until
    jobs = Occurrence.objects.filter(**ended).order_by().values_list("job__name")
    runs = Attempt.objects.filter(**ended).order_by()
    tasks = runs.values_list("run__task__job__name", "run__task__name")
    found = {name: list(pair) for name, pair in held.durations.items()}
    for *names, count, seconds in [
        *jobs.annotate(Count("pk"), spent=Sum(took)),
        *tasks.annotate(Count("pk"), spent=Sum(took)),
    ]:
        total = found.setdefault(SEPARATOR.join(names), [0, 0.0])
        total[0] += count
        total[1] += seconds.total_seconds() if seconds else 0.0
    return found, until


def summaries(durations: Mapping[str, Any]) -> list[Metric]:
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
