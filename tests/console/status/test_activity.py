"""The chart of starts counts recorded and projected starts."""

import re
from datetime import datetime, timedelta

import pytest

from punctual.console.kit.badges import CHART_LOOK
from punctual.console.status.activity import (
    MAX_PROJECTED_JOBS,
    add_counts,
    describe_counts,
    draw_chart,
    projected_starts,
    recorded_starts,
    window,
)
from punctual.occurrences.states import OccurrenceState as S
from tests.console.ledger_rows import make_job, make_occurrence

pytestmark = pytest.mark.req("OPS-2")

MINUTE = timedelta(minutes=1)


def test_every_state_has_a_look() -> None:
    assert set(CHART_LOOK) == set(S)


@pytest.mark.django_db
def test_starts_are_counted_by_minute_and_outcome(now: datetime) -> None:
    job = make_job("etl", now)
    second = timedelta(seconds=1)
    for at, state in [(-3 * MINUTE, S.COMPLETED), (-3 * MINUTE + second, S.FAILED), (-2 * MINUTE, S.RUNNING),
                      (2 * MINUTE, S.PENDING), (-2 * MINUTE + second, S.FAILED_STALE)]:  # fmt: skip
        make_occurrence(job, now + at, state)
    make_occurrence(job, now - timedelta(hours=2))
    assert recorded_starts(now) == {
        (now - 3 * MINUTE, "good"): 1,
        (now - 3 * MINUTE, "bad"): 1,
        (now - 2 * MINUTE, "busy"): 1,
        (now - 2 * MINUTE, "bad"): 1,
        (now + 2 * MINUTE, "planned"): 1,
    }


@pytest.mark.django_db
def test_starts_are_counted_when_they_happened_and_not_at_their_nominal_time(now: datetime) -> None:
    job = make_job("etl", now)
    ago = timedelta(hours=3)
    for number in range(3):  # recovered or replayed: their instants lie outside of the chart
        make_occurrence(job, now - ago + number * MINUTE, started_at=now - 4 * MINUTE)
    make_occurrence(job, now - 9 * MINUTE, S.RUNNING, started_at=now - MINUTE)
    make_occurrence(job, now - 8 * MINUTE, S.MISSED, started_at=None)
    make_occurrence(job, now + MINUTE, S.PENDING, run_at=now + 3 * MINUTE)
    assert recorded_starts(now) == {
        (now - 4 * MINUTE, "good"): 3,
        (now - MINUTE, "busy"): 1,
        (now - 8 * MINUTE, CHART_LOOK[S.MISSED]): 1,
        (now + 3 * MINUTE, "planned"): 1,
    }


@pytest.mark.django_db
def test_starts_of_more_than_sixty_jobs_are_projected_each_second_of_them(now: datetime) -> None:
    for number in range(70):
        make_job(f"job {number}", now, schedule="* * * * * *")
    make_job("tomorrow", now, schedule="0 0 1 1 *")
    counts = projected_starts(now)
    assert counts[now + 2 * MINUTE, "planned"] == 70 * 60
    assert sum(counts.values()) == 70 * (16 * 60 - 1), "one a second, until the end of the chart"


@pytest.mark.django_db
def test_starts_without_a_row_are_projected_from_schedules(now: datetime) -> None:
    job = make_job("etl", now - MINUTE, schedule="*/5 * * * *")
    make_occurrence(job, now + 5 * MINUTE, S.PENDING)
    paused = make_job("held", now - MINUTE, schedule="* * * * *", paused_at=now)
    assert paused.paused
    assert projected_starts(now) == {(now + ahead * MINUTE, "planned"): 1 for ahead in (10, 15)}


@pytest.mark.django_db
def test_a_large_fleet_is_not_projected(now: datetime) -> None:
    for number in range(MAX_PROJECTED_JOBS + 1):
        make_job(f"job {number}", now, schedule="* * * * *")
    assert projected_starts(now) == {}


def test_a_column_is_at_its_minute_with_failures_on_top(now: datetime) -> None:
    start, end = window(now)
    text = draw_chart({(start, "good"): 4, (start, "bad"): 2}, now)
    heights = {
        look: float(height) for look, height in re.findall(r'class="bar (\w+)".*?height="([\d.]+)"', text)
    }
    tops = {look: float(y) for look, y in re.findall(r'class="bar (\w+)".*?y="([\d.]+)"', text)}
    assert heights["good"] == 2 * heights["bad"]
    assert tops["bad"] < tops["good"]
    assert f"{start:%H:%M} UTC: 2 failed, 4 completed" in text
    assert (end - start) / MINUTE == 60


def test_the_label_of_an_empty_hour_says_so(now: datetime) -> None:
    assert describe_counts({}, now).endswith("UTC: nothing.")
    assert "3 failed" in describe_counts(add_counts({(now, "bad"): 1}, {(now, "bad"): 2}), now)
