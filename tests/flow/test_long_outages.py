"""One year of downtime of a job that runs each minute: over in seconds, in no more memory than a month's."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import pytest

from jobs.config import MOST_RECOVERED
from jobs.models import Job as JobRow
from jobs.registry import registry
from occurrences.backlog import run_skipped
from occurrences.models import Cursor, Occurrence, Pool
from tests.flow.test_outages import BEGIN, KINDS, STRATEGIES, outage
from tests.harness import Harness

pytestmark = [pytest.mark.req("REC-1"), pytest.mark.timeout(300)]

DAY, MONTH, YEAR = 1440, 43_200, 525_600  # in minutes
SECONDS = 30.0  # half a second on an idle machine: what is measured is told, this only says "seconds"
PORTION = 1000
MEGABYTE = 1 << 20
GROWTH = MEGABYTE // 2  # five more ranges and some; to keep in mind what a step disposes of would take three
MOST = 12 * MEGABYTE
WIDEST: dict[str, Any] = {"recovery": "bounded_window", "recovery_max_occurrences": MOST_RECOVERED}
Record = Any  # pytest's record_property


@dataclass(frozen=True)
class Cost:
    peak: int
    rows: int


def first_tick(harness: Harness, minutes: int, config: dict[str, Any], *, paused: bool = False) -> Cost:
    """Of a beat that comes back after so many minutes, on an empty ledger."""
    Occurrence.objects.all().delete()
    JobRow.objects.all().delete()
    with registry.isolated():
        outage(harness, KINDS["cron"], minutes, **config)
    Pool.objects.update(size=1)
    if paused:
        JobRow.objects.update(paused_at=BEGIN)
    return traced(harness.tick)


def traced(call: Callable[[], object]) -> Cost:
    gc.collect()
    tracemalloc.start()
    try:
        call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Cost(peak, Occurrence.objects.count())


@pytest.mark.parametrize("strategy", ["all", "last", "none", "newest three of two minutes", "compressed"])
def test_a_year_takes_no_more_memory_than_a_month(
    harness: Harness, strategy: str, record_property: Record
) -> None:
    month = first_tick(harness, MONTH, STRATEGIES[strategy])
    year = first_tick(harness, YEAR, STRATEGIES[strategy])
    record_property("month", str(month))
    record_property("year", str(year))
    assert year.peak < month.peak + GROWTH, (month, year)
    assert year.peak < MOST
    assert year.rows <= month.rows + 5, "a range for each hundred thousand instants"


def test_neither_does_the_widest_window_there_is(harness: Harness, record_property: Record) -> None:
    """It keeps in mind as many instants as it may run; all that lies before them costs nothing."""
    just_beyond = first_tick(harness, MOST_RECOVERED + DAY, WIDEST)
    year = first_tick(harness, YEAR, WIDEST)
    record_property("year", str(year))
    assert year.peak < just_beyond.peak + GROWTH, (just_beyond, year)
    assert year.peak < MOST


@pytest.mark.req("JOB-8")
def test_nor_does_what_is_made_of_the_backlog_of_a_job_that_was_paused_all_the_while(
    harness: Harness, record_property: Record
) -> None:
    paused: list[int] = []
    made: list[int] = []
    for minutes in (MONTH, YEAR):
        paused.append(first_tick(harness, minutes, STRATEGIES["last"], paused=True).peak)
        job = JobRow.objects.get()
        made.append(traced(partial(run_skipped, job, choice="compressed", since=BEGIN, now=harness.now)).peak)
        assert Occurrence.objects.get(cause="recovery").covers is not None
    record_property("peaks", str((paused, made)))
    assert paused[1] < paused[0] + GROWTH
    assert made[1] < made[0] + GROWTH


@pytest.mark.parametrize("strategy", [*STRATEGIES, "widest"])
def test_a_year_is_over_in_seconds(harness: Harness, strategy: str, record_property: Record) -> None:
    now = outage(harness, KINDS["cron"], YEAR, **STRATEGIES.get(strategy, WIDEST))
    Pool.objects.update(size=1)
    started = perf_counter()
    harness.tick()
    seconds = perf_counter() - started
    record_property("seconds", seconds)
    print(f"\na year, {strategy}: {seconds:.2f} s")  # noqa: T201 - the figure; shown with -s
    assert seconds < SECONDS
    if strategy in ("all", "widest"):  # what runs comes in portions
        assert Occurrence.objects.filter(cause="recovery").count() >= PORTION
    else:
        assert Cursor.objects.filter(planned_until__gt=now).exists()
