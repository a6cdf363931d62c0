"""Prometheus metrics agree with the rows."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from punctual.console.status.metric_durations import BOUNDS
from punctual.console.status.metric_totals import recount
from punctual.console.status.metrics import render_metrics
from punctual.execution.models import Process, Rejection
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from punctual.occurrences.states import RunState as R
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
    assert figures[key("jobs_dispatched")] == 1, "no worker holds a run"
    assert figures[key("jobs_running")] == 0
    assert figures[key("jobs_in_queue")] == 1
    assert figures[key("jobs_paused")] == 1


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
    spent, *counts = MetricsSnapshot.objects.get().durations["etl"]
    assert (spent, sum(counts)) == (180.0, 2)


@pytest.mark.req("TEL-3")
def test_a_scrape_that_lost_the_race_shows_the_stored_text_so_that_no_counter_falls(now: datetime) -> None:
    """Otherwise the next scrape, which reads the stored text, would show less than this one."""
    job = make_job("etl", now)
    slow, _ = MetricsSnapshot.objects.get_or_create(pk=1, defaults={"claimed_at": now})
    stored = recount(MetricsSnapshot.objects.get(), now)
    make_occurrence(job, now)
    assert recount(slow, now) == stored


@pytest.mark.req("TEL-3")
def test_every_series_of_a_new_job_starts_at_zero(now: datetime) -> None:
    make_task(make_job("etl", now), "load")
    gone = make_job("gone", now, removed_at=now)
    make_task(gone, "load")
    figures = scrape(now)
    statuses = [
        "completed",
        "completed_with_errors",
        "failed",
        "canceled",
        "failed_stale",
        "skipped",
        "missed",
    ]
    assert [figures[key("job_occurrences_total", "etl", status)] for status in statuses] == [0] * 7
    statuses = ["success", "failure", "timeout", "lost", "canceled", "snoozed", "released"]
    assert [figures[key("task_attempts_total", "etl", "load", status)] for status in statuses] == [0] * 7
    strategies = ["execute_all", "execute_last", "mark_as_missed", "bounded_window", "compressed"]
    assert [figures[key("recovery_runs_total", "etl", strategy)] for strategy in strategies] == [0] * 5
    assert figures[key("job_execution_duration_seconds_count", "etl")] == 0
    assert figures[key("task_execution_duration_seconds_bucket", "etl", "load", "+Inf")] == 0
    assert not [labels for _, labels in figures if "gone" in labels], "nothing is known of a removed job"


@pytest.mark.req("TEL-3")
def test_a_removed_job_keeps_the_counters_of_what_it_did(now: datetime) -> None:
    make_occurrence(make_job("gone", now, removed_at=now), now, OccurrenceState.FAILED)
    assert scrape(now)[key("job_occurrences_total", "gone", "failed")] == 1


def test_rejected_messages_are_counted_by_problem_from_zero(now: datetime) -> None:
    assert scrape(now)[key("messages_rejected_total", "malformed")] == 0
    for queue in ("a", "b"):
        Rejection.objects.create(queue=queue, problem="malformed", count=2, last_at=now)
    assert scrape(now)[key("messages_rejected_total", "malformed")] == 4
    assert scrape(now)[key("messages_rejected_total", "unreadable")] == 0


@pytest.mark.req("TEL-3")
def test_no_gauge_ends_like_a_counter_and_every_counter_does(now: datetime) -> None:
    make_task(make_job("etl", now))
    families = list(text_string_to_metric_families(render_metrics(now).decode()))
    names = {kind: {one.name for one in families if one.type == kind} for kind in ("gauge", "counter")}
    assert len(names["gauge"]) >= 10
    assert not [name for name in names["gauge"] if name.endswith("_total")]
    assert len(names["counter"]) == 4
    samples = {sample.name for one in families if one.type == "counter" for sample in one.samples}
    assert all(name.endswith("_total") for name in samples)


@pytest.mark.req("TEL-3")
def test_durations_are_histograms_whose_buckets_hold_all_that_took_no_longer(now: datetime) -> None:
    job = make_job("etl", now)
    for number, seconds in enumerate([0.05, 0.1, 3, 3000, 100_000]):
        end = now + timedelta(seconds=seconds)
        make_occurrence(job, now - number * MINUTE, started_at=now, finished_at=end)
    figures = scrape(now + timedelta(days=2))
    bounds = [*map(str, BOUNDS), "+Inf"]
    buckets = [figures[key("job_execution_duration_seconds_bucket", "etl", bound)] for bound in bounds]
    assert buckets == [0, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 5]
    assert figures[key("job_execution_duration_seconds_count", "etl")] == 5
    assert figures[key("job_execution_duration_seconds_sum", "etl")] == pytest.approx(103_003.15)


@pytest.mark.req("TEL-3")
def test_an_occurrence_runs_while_a_worker_holds_a_run_of_it_and_not_while_it_waits(now: datetime) -> None:
    job = make_job("etl", now)
    first, second = make_task(job, "first"), make_task(job, "second")
    states = {0: (R.RUNNING, R.SCHEDULED), 1: (R.RUNNING, R.RETRY), 2: (R.SUCCESS, R.RETRY),
              3: (R.SUCCESS, R.SCHEDULED), 4: (R.CLAIMED, R.SCHEDULED)}  # fmt: skip
    for minutes, (one, other) in states.items():
        occurrence = make_occurrence(job, now - minutes * MINUTE, OccurrenceState.RUNNING)
        make_run(occurrence, first, one)
        make_run(occurrence, second, other)
    sent = make_occurrence(job, now - 9 * MINUTE, OccurrenceState.DISPATCHED)
    make_run(sent, first, R.SCHEDULED)
    figures = scrape(now)
    assert figures[key("jobs_running")] == 3
    assert figures[key("jobs_retrying")] == 1
    assert figures[key("jobs_dispatched")] == 2


@pytest.mark.req("OPS-4")
def test_a_queue_in_which_runs_wait_without_a_worker_is_marked(now: datetime) -> None:
    job = make_job("etl", now)
    for queue, minutes in {"slow": 2, "new": 0.25, "served": 3}.items():
        waiting = make_occurrence(job, now - minutes * MINUTE, OccurrenceState.DISPATCHED)
        make_run(waiting, make_task(job, queue), R.SCHEDULED, policy={"queue": queue})
    worker = {"kind": "worker", "started_at": now, "tick_duration": timedelta()}
    Process.objects.create(name="live", seen_at=now, queues=["served"], **worker)
    Process.objects.create(name="dead", seen_at=now - MINUTE, queues=["slow"], **worker)
    figures = scrape(now)
    queues = ("slow", "new", "served", "default")
    assert [figures[key("queue_unserved", queue)] for queue in queues] == [1, 0, 0, 0]


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
