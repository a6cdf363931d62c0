"""The shipped alert rules fire when they should, once, for any number of web processes."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.promtool import RULES, Series, check, evaluate, needs_promtool, run_rules

pytestmark = [needs_promtool, pytest.mark.req("TEL-3")]

DASHBOARD = RULES.with_name("grafana-dashboard.json")
LONG = 70  # scrapes: more than the hour that PunctualJobFails looks back
Values = Sequence[float | None]


def scraped(targets: int, occurrences: dict[tuple[str, str], Values]) -> Series:
    """Series of a platform at rest, with these counters of occurrences by job and status."""
    (length,) = {len(values) for values in occurrences.values()}
    series: Series = {}
    for number in range(targets):
        instance = f'instance="web{number}"'
        for name, value in (("dlq_size", 0), ("outbox_size", 0), ("lateness_seconds", 0)):
            series[f"scheduler_{name}{{{instance}}}"] = [value] * length
        series[f'scheduler_beat_tick_age_seconds{{beat="b",{instance}}}'] = [0.5] * length
        for (job, status), values in occurrences.items():
            labels = f'job="{job}",status="{status}",{instance}'
            series[f"scheduler_job_occurrences_total{{{labels}}}"] = list(values)
    return series


def test_rules_and_configuration_are_valid() -> None:
    assert "FAILED" not in (rules := check("rules", str(RULES)))
    assert "SUCCESS" in rules
    output = check("config", str(RULES.with_name("prometheus.yaml")))
    assert "is valid prometheus config" in output, output


@pytest.mark.parametrize("targets", [1, 4])
def test_the_first_failure_of_a_job_fires_once_and_for_an_hour(targets: int, tmp_path: Path) -> None:
    series = scraped(
        targets, {("etl", "failed"): [0, 0, 0, *[1] * LONG], ("good", "failed"): [0] * (LONG + 3)}
    )
    fires = {"PunctualJobFails": [({"job": "etl"}, "1")]}
    assert not run_rules(series, tmp_path, {2: {}, 3: fires, 30: fires, 62: fires, 64: {}})


@pytest.mark.parametrize("targets", [1, 4])
def test_failures_of_both_kinds_are_added_up_exactly(targets: int, tmp_path: Path) -> None:
    values: dict[tuple[str, str], Values] = {
        ("etl", "failed"): [7, 8, 8, 9],
        ("etl", "failed_stale"): [0, 0, 1, 1],
    }
    series = scraped(targets, values)
    assert not run_rules(series, tmp_path, {3: {"PunctualJobFails": [({"job": "etl"}, "3")]}})


@pytest.mark.parametrize("targets", [1, 4])
def test_a_job_that_failed_before_its_first_scrape_fires_too(targets: int, tmp_path: Path) -> None:
    series = scraped(targets, {("old", "failed"): [5] * 20, ("new", "failed"): [*[None] * 8, *[1] * 12]})
    fires = {"PunctualJobFails": [({"job": "new"}, "1")]}
    assert not run_rules(series, tmp_path, {7: {}, 8: fires, 10: fires, 18: {}})


def test_a_prometheus_that_has_just_started_does_not_report_failures_of_the_past(tmp_path: Path) -> None:
    series = scraped(1, {("old", "failed"): [5] * 20})
    assert not run_rules(series, tmp_path, {0: {}, 3: {}, 10: {}})


def test_an_outage_of_the_web_processes_is_not_a_failure_of_jobs(tmp_path: Path) -> None:
    series = scraped(1, {("old", "failed"): [5, 5, *[None] * 10, *[5] * 8]})
    absent = {name: [*values[:2], *[None] * 10, *values[12:]] for name, values in series.items()}
    assert not run_rules(absent, tmp_path, {1: {}, 13: {}, 18: {}})


@pytest.mark.parametrize("targets", [1, 4])
def test_the_first_missed_instant_fires_once(targets: int, tmp_path: Path) -> None:
    series = scraped(targets, {("etl", "missed"): [0, 0, *[40] * 20]})
    fires = {"PunctualMissed": [({"job": "etl"}, "40")]}
    assert not run_rules(series, tmp_path, {1: {}, 2: fires, 16: fires, 18: {}})


@pytest.mark.parametrize("targets", [1, 4])
def test_a_queue_without_a_worker_fires_with_its_name(targets: int, tmp_path: Path) -> None:
    series = scraped(targets, {("etl", "failed"): [0] * 4})
    for number in range(targets):
        for queue, values in {"slow": [0, 0, 1, 1], "default": [0, 0, 0, 0]}.items():
            series[f'scheduler_queue_unserved{{queue="{queue}",instance="web{number}"}}'] = list(values)
    fires = {"PunctualQueueWithoutWorker": [({"queue": "slow"}, "1")]}
    assert not run_rules(series, tmp_path, {1: {}, 2: fires})


def test_a_dead_beat_fires(tmp_path: Path) -> None:
    series = scraped(1, {("etl", "failed"): [0] * 4})
    series['scheduler_beat_tick_age_seconds{beat="b",instance="web0"}'] = [1, 61, 121, 181]
    assert not run_rules(series, tmp_path, {0: {}, 2: {"PunctualNoBeat": [({}, "")]}})


def test_every_panel_shows_the_same_for_one_and_for_four_web_processes(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    shown = [evaluate(expressions, busy_platform(targets), tmp_path, at=30) for targets in (1, 4)]
    for expression, one, four in zip(expressions, *shown, strict=True):
        assert one, f"{expression} shows nothing"
        assert one == four, expression


def busy_platform(targets: int) -> Series:
    """Series of every metric that the dashboard shows, all of them rising."""
    counters = {
        "job_occurrences_total": ('job="a",status="completed"', 'job="a",status="failed"',
                                  'job="b",status="failed"'),
        "task_attempts_total": ('job="a",task="x",status="success"', 'job="a",task="y",status="failure"'),
        "recovery_runs_total": ('job="a",strategy="execute_all"', 'job="b",strategy="execute_all"'),
        "job_execution_duration_seconds_sum": ('job="a"', 'job="b"'),
        "job_execution_duration_seconds_count": ('job="a"', 'job="b"'),
        "job_execution_duration_seconds_bucket": ('job="a",le="1.0"', 'job="a",le="+Inf"'),
        "beat_tick_age_seconds": ('beat="b1"', 'beat="b2"'),
        "queue_age_seconds": ('queue="q1"', 'queue="q2"'),
        "queue_unserved": ('queue="q1"', 'queue="q2"'),
    }  # fmt: skip
    gauges = ("lateness_seconds", "dlq_size", "outbox_size", "jobs_running", "jobs_dispatched",
              "jobs_retrying", "jobs_in_queue", "jobs_paused")  # fmt: skip
    names = [(name, labels) for name, several in counters.items() for labels in several]
    names += [(name, "") for name in gauges]
    return {
        f'scheduler_{name}{{{labels},instance="web{target}"}}'.replace("{,", "{"): [
            float(scrape * (number + 1)) for scrape in range(31)
        ]
        for target in range(targets)
        for number, (name, labels) in enumerate(names)
    }
