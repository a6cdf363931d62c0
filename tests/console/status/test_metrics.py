"""Prometheus metrics agree with the rows."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from punctual.console.status.metric_totals import recount
from punctual.console.status.metrics import render_metrics
from punctual.execution.models import Process
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from punctual.operations.prune_actions import prune_job
from punctual.recovery.models import MetricsSnapshot
from punctual.recovery.requester import Requester
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-4")]

MINUTE = timedelta(minutes=1)


def scrape(now: datetime) -> dict[tuple[str, frozenset[str]], float]:
    """Return values by name and label values, read by the parser of the client library."""
    families = text_string_to_metric_families(render_metrics(now).decode())
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def key(name: str, *labels: str) -> tuple[str, frozenset[str]]:
    return f"scheduler_{name}", frozenset(labels)


def test_an_empty_ledger_has_gauges_at_zero_and_no_counters(now: datetime) -> None:
    names = {name for name, _ in scrape(now)}
    assert set(scrape(now).values()) == {0.0}
    assert {"scheduler_dlq_size", "scheduler_outbox_size", "scheduler_lateness_seconds"} <= names
    assert "scheduler_job_occurrences_total" not in names


def test_occurrences_are_counted_by_job_and_status_once_they_are_over(now: datetime) -> None:
    job = make_job("etl", now)
    for minute, state in enumerate(OccurrenceState):
        make_occurrence(job, now + minute * MINUTE, state)
    make_occurrence(job, now - MINUTE, OccurrenceState.COMPLETED)
    figures = scrape(now)
    assert figures[key("job_occurrences_total", "etl", "completed")] == 2
    assert figures[key("job_occurrences_total", "etl", "skipped")] == 1
    assert key("job_occurrences_total", "etl", "running") not in figures


def test_attempts_are_counted_by_job_task_and_status(now: datetime) -> None:
    job = make_job("etl", now)
    run = make_run(make_occurrence(job, now), make_task(job, "load"))
    for number, state in enumerate(AttemptState):
        make_attempt(run, number, state)
    figures = scrape(now)
    assert figures[key("task_attempts_total", "etl", "load", "failure")] == 1
    assert figures[key("task_attempts_total", "etl", "load", "timeout")] == 1
    assert key("task_attempts_total", "etl", "load", "running") not in figures


def test_recovery_is_counted_by_strategy(now: datetime) -> None:
    job = make_job("etl", now)
    config = {"recovery": "execute_last"}
    make_occurrence(job, now, cause=Cause.RECOVERY, config=config)
    make_occurrence(job, now - MINUTE, config=config)
    assert scrape(now)[key("recovery_runs_total", "etl", "execute_last")] == 1


def test_running_and_queued_occurrences_are_gauges(now: datetime) -> None:
    job = make_job("etl", now, paused_at=now)
    make_job("gone", now, paused_at=now, removed_at=now)
    make_occurrence(job, now, OccurrenceState.RUNNING)
    make_occurrence(job, now - MINUTE, OccurrenceState.QUEUED)
    figures = scrape(now)
    assert figures[key("jobs_running_total")] == 1
    assert figures[key("jobs_in_queue_total")] == 1
    assert figures[key("jobs_paused_total")] == 1


def test_a_backlog_is_measured_as_lateness_outbox_and_queue_age(now: datetime) -> None:
    job = make_job("etl", now)
    make_occurrence(job, now - 3 * MINUTE, OccurrenceState.PENDING)
    make_occurrence(job, now + MINUTE, OccurrenceState.PENDING)
    fired = make_occurrence(job, now - 2 * MINUTE, OccurrenceState.DISPATCHED)
    make_run(fired, make_task(job, "unsent"), RunState.SCHEDULED, dispatched_at=None)
    make_run(fired, make_task(job, "sent"), RunState.SCHEDULED)
    waits = {"dispatched_at": None, "available_at": None}
    make_run(fired, make_task(job, "waits its turn"), RunState.SCHEDULED, **waits)
    make_run(fired, make_task(job, "dead"), RunState.DLQ)
    figures = scrape(now)
    assert figures[key("lateness_seconds")] == 180
    assert figures[key("outbox_size")] == 1
    assert figures[key("queue_age_seconds", "default")] == 120
    assert figures[key("dlq_size")] == 1


def test_each_queue_has_an_age_and_a_size_of_its_own(now: datetime) -> None:
    job = make_job("etl", now)
    for minutes, queue in ((1, "default"), (9, "slow"), (4, "slow")):
        one = make_occurrence(job, now - minutes * MINUTE, OccurrenceState.DISPATCHED)
        make_run(one, make_task(job, f"{queue}{minutes}"), RunState.SCHEDULED, policy={"queue": queue})
    figures = scrape(now)
    assert figures[key("queue_age_seconds", "slow")] == 540
    assert figures[key("queue_age_seconds", "default")] == 60
    assert figures[key("queue_size", "slow")] == 2
    assert figures[key("queue_size", "default")] == 1


def test_each_beat_has_a_tick_age_until_it_has_stopped_for_long(now: datetime) -> None:
    for name, minutes in {"host:1": 1, "host:2": 30, "host:3": 90}.items():
        tick = now - minutes * MINUTE
        Process.objects.create(
            kind="beat", name=name, started_at=tick, seen_at=tick, tick_duration=timedelta()
        )
    figures = scrape(now)
    assert figures[key("beat_tick_age_seconds", "host:1")] == 60
    assert figures[key("beat_tick_age_seconds", "host:2")] == 1800
    assert key("beat_tick_age_seconds", "host:3") not in figures


def test_a_name_with_quotes_and_line_breaks_stays_one_label(now: datetime) -> None:
    name = 'a "quoted"\\ name\nnächtlich 夜'
    make_occurrence(make_job(name, now), now)
    assert scrape(now)[key("job_occurrences_total", name, "completed")] == 1


def test_counters_are_counted_once_for_all_processes_and_a_twentieth_of_the_time(now: datetime) -> None:
    job = make_job("etl", now)
    make_occurrence(job, now)
    total = key("job_occurrences_total", "etl", "completed")
    assert scrape(now)[total] == 1
    MetricsSnapshot.objects.update(cost=timedelta(seconds=3))  # as a large ledger would
    make_occurrence(job, now + MINUTE)
    with CaptureQueriesContext(connection) as queries:
        assert scrape(now + timedelta(seconds=59))[total] == 1
    assert not [query for query in queries if "punctual_attempt" in query["sql"]]
    assert scrape(now + timedelta(seconds=61))[total] == 2


def test_a_slow_count_does_not_overwrite_a_newer_one(now: datetime) -> None:
    job = make_job("etl", now)
    make_occurrence(job, now, started_at=now, finished_at=now + 2 * MINUTE)
    slow, _ = MetricsSnapshot.objects.get_or_create(pk=1, defaults={"claimed_at": now})
    recount(MetricsSnapshot.objects.get(), now + 3 * MINUTE)
    make_occurrence(job, now + 4 * MINUTE, started_at=now + 4 * MINUTE, finished_at=now + 5 * MINUTE)
    recount(MetricsSnapshot.objects.get(), now + 6 * MINUTE)
    recount(slow, now + 3 * MINUTE)
    assert MetricsSnapshot.objects.get().durations["etl"] == [2, 180.0]


def test_durations_are_added_up_and_outlive_their_rows(now: datetime) -> None:
    job = make_job("etl", now)
    task = make_task(job, "load")
    spent = key("job_execution_duration_seconds_sum", "etl")
    one = make_occurrence(job, now, started_at=now, finished_at=now + MINUTE)
    make_attempt(make_run(one, task), started_at=now, finished_at=now + MINUTE / 2)
    figures = scrape(now + 2 * MINUTE)
    assert figures[spent] == 60
    assert figures[key("task_execution_duration_seconds_sum", "etl", "load")] == 30
    assert figures[key("task_execution_duration_seconds_count", "etl", "load")] == 1
    one.delete()
    make_occurrence(job, now + 3 * MINUTE, finished_at=now + 5 * MINUTE, started_at=now + 3 * MINUTE)
    figures = scrape(now + 6 * MINUTE)
    assert figures[spent] == 180
    assert figures[key("job_execution_duration_seconds_count", "etl")] == 2


def test_a_row_that_stands_for_many_instants_counts_as_many(now: datetime) -> None:
    facts = {"spans_until": now + MINUTE, "instants": 40, "started_at": None}
    make_occurrence(make_job("etl", now), now, OccurrenceState.MISSED, **facts)
    assert scrape(now)[key("job_occurrences_total", "etl", "missed")] == 40


def test_counters_agree_with_the_ledger_after_a_prune(now: datetime) -> None:
    job = make_job("etl", now, config={"retention": "1h"})
    task = make_task(job, "load")
    for minute, cause in ((0, Cause.SCHEDULE), (1, Cause.RECOVERY)):
        config = {"recovery": "execute_last"}
        one = make_occurrence(job, now + minute * MINUTE, cause=cause, config=config, finalized_at=now)
        make_attempt(make_run(one, task))
    facts = {"spans_until": now + 9 * MINUTE, "instants": 40, "started_at": None, "finalized_at": now}
    make_occurrence(job, now + 2 * MINUTE, OccurrenceState.MISSED, **facts)
    counted = {name: value for name, value in scrape(now + 5 * MINUTE).items() if name[0].endswith("_total")}
    later = now + timedelta(days=2)
    prune_job(job, requester=Requester("ada"), now=later)
    assert not Occurrence.objects.exists()
    figures = scrape(later)
    kept = {name: figures[name] for name in counted}
    assert kept == counted
    assert kept[key("job_occurrences_total", "etl", "missed")] == 40


def test_the_number_of_queries_does_not_grow(now: datetime) -> None:
    counts = []
    for size in (1, 5):
        MetricsSnapshot.objects.all().delete()
        for number in range(size):
            job = make_job(f"job {size} {number}", now)
            make_attempt(make_run(make_occurrence(job, now), make_task(job)))
        with CaptureQueriesContext(
            connection,
        ) as queries:
            render_metrics(now)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 23
