"""A beat starts after an outage of a year: jobs that run each minute are settled within seconds."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from punctual.occurrences.models import Cursor
from tests.cluster.job_rows import insert_jobs
from tests.cluster.ledger_queries import occurrences_of, start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.req("REC-1"), pytest.mark.req("OCC-5")]

MONTH, YEAR = timedelta(days=30), timedelta(days=365)
MINUTE = timedelta(minutes=1)
SECONDS = 60.0  # about three on an idle machine, without the start of the beat
PORTION = 999  # a thousand, less one at the edge of the minute
GROWTH = 16 << 20  # a list of one job's instants would take twice that
STRATEGIES: dict[str, dict[str, Any]] = {
    "all": {"recovery": "execute_all"},
    "last": {"recovery": "execute_last"},
    "none": {"recovery": "mark_as_missed"},
    "window": {"recovery": "bounded_window", "recovery_max_occurrences": 100},
    "compressed": {"recovery": "compressed"},
}


def jobs_away_for(span: timedelta, prefix: str) -> None:
    """Insert jobs that were last planned that long ago."""
    then = timezone.now() - span
    with transaction.atomic(using=ALIAS):
        for name, config in STRATEGIES.items():
            insert_jobs([f"{prefix}-{name}"], "* * * * *", **config)
        cursors = Cursor.objects.using(ALIAS).filter(job__name__startswith=prefix)
        cursors.update(settled_until=then, planned_until=then, plan_at=then)


def settled(prefix: str) -> bool:
    """Whether all jobs are settled; `execute_all` needs only its first portion."""
    now = timezone.now()
    cursors = Cursor.objects.using(ALIAS).filter(job__name__startswith=prefix)
    behind = cursors.filter(planned_until__lte=now).values_list("job__name", flat=True)
    portion = occurrences_of(f"{prefix}-all").filter(cause="recovery").count()
    return list(behind) == [f"{prefix}-all"] and portion >= PORTION


def peak_of_a_beat(cluster: Cluster, span: timedelta, prefix: str) -> tuple[int, float]:
    """Peak memory in bytes, and seconds until all is settled, counted from the beat's first tick."""
    (beat,) = start_beats(cluster, 1)
    jobs_away_for(span, prefix)
    started = time.monotonic()
    cluster.wait_until(
        lambda: settled(prefix), timeout=SECONDS, describe=lambda: f"{occurrences_of(prefix).count()}"
    )
    seconds = time.monotonic() - started
    peak = beat.peak_memory()
    cluster.stop(beat)
    return peak, seconds


def test_a_beat_back_after_a_year_settles_all_strategies_within_seconds_in_a_month_s_memory(
    cluster: Cluster, record_property: Any
) -> None:
    cluster.apps = TOOLS
    month, _ = peak_of_a_beat(cluster, MONTH, "month")
    Cursor.objects.using(ALIAS).update(plan_at=None)
    cluster.execute("DELETE FROM punctual_process WHERE kind = 'beat'")
    year, seconds = peak_of_a_beat(cluster, YEAR, "year")
    record_property("month, year, seconds", (month, year, seconds))
    print(f"\npeak of a beat: month {month >> 20} MB, year {year >> 20} MB, {seconds:.1f} s")  # noqa: T201

    assert year < month + GROWTH
    for name in ("last", "none", "window", "compressed"):
        ranges = occurrences_of(f"year-{name}", end=timezone.now() - 2 * MINUTE)
        assert ranges.count() < 1100, "ranges"
        instants = ranges.aggregate(all=Sum("instants"))["all"]
        assert abs(instants - YEAR // MINUTE) <= 3, name
    assert cluster.log_lines("traceback", "beat.tick_failed", "job.unplannable") == []
