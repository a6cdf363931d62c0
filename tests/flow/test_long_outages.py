"""A year of downtime of a job that runs every minute is handled in seconds and in bounded memory."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import pytest

from punctual.jobs.config.keys import MAX_RECOVERED
from punctual.jobs.declaration.registry import registry
from punctual.jobs.models import Job as JobRow
from punctual.occurrences.models import Cursor, Occurrence, Pool
from punctual.occurrences.planning.paused_instants import run_skipped
from tests.flow.test_outages import BEGIN, KINDS, STRATEGIES, outage
from tests.harness import Harness

pytestmark = [pytest.mark.req("REC-1"), pytest.mark.timeout(300)]

DAY, MONTH, YEAR = 1440, 43_200, 525_600  # in minutes
SECONDS = 30.0  # half a second on an idle machine; the measured time is recorded
PORTION = 1000
MEGABYTE = 1 << 20
GROWTH = MEGABYTE // 2  # room for five more ranges; holding every instant would take three megabytes
MAX_PEAK = 12 * MEGABYTE
WIDEST: dict[str, Any] = {"recovery": "bounded_window", "recovery_max_occurrences": MAX_RECOVERED}
Record = Any  # pytest's record_property


@dataclass(frozen=True)
class Cost:
    peak: int
    rows: int


def first_tick(harness: Harness, minutes: int, config: dict[str, Any], *, paused: bool = False) -> Cost:
    """The cost of the first tick after so many minutes, on an empty ledger."""
    Occurrence.objects.all().delete()
    JobRow.objects.all().delete()
    with registry.isolated():
        outage(harness, KINDS["cron"], minutes, **config)
    Pool.objects.update(size=1)
    if paused:
        JobRow.objects.update(paused_at=BEGIN)
    return measure(harness.tick)


def measure(call: Callable[[], object]) -> Cost:
    gc.collect()
    tracemalloc.start()
    try:
        call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Cost(peak, Occurrence.objects.count())


@pytest.mark.parametrize(
    "strategy",
    [
        "all",
        "last",
        *(
            pytest.param(strategy, marks=pytest.mark.soak)  # the same ranges, under another choice
            for strategy in ("none", "newest three of two minutes", "compressed")
        ),
    ],
)
def test_a_year_takes_no_more_memory_than_a_month(
    harness: Harness, strategy: str, record_property: Record
) -> None:
    month = first_tick(harness, MONTH, STRATEGIES[strategy])
    year = first_tick(harness, YEAR, STRATEGIES[strategy])
    record_property("month", str(month))
    record_property("year", str(year))
    assert year.peak < month.peak + GROWTH, (month, year)
    assert year.peak < MAX_PEAK
    assert year.rows <= month.rows + 5, "one range per hundred thousand instants"


def test_the_largest_window_takes_no_more_memory_after_a_year(
    harness: Harness, record_property: Record
) -> None:
    """It holds as many instants as it may run; earlier ones cost nothing."""
    just_beyond = first_tick(harness, MAX_RECOVERED + DAY, WIDEST)
    year = first_tick(harness, YEAR, WIDEST)
    record_property("year", str(year))
    assert year.peak < just_beyond.peak + GROWTH, (just_beyond, year)
    assert year.peak < MAX_PEAK


@pytest.mark.req("JOB-8")
def test_resuming_a_job_paused_for_a_year_takes_no_more_memory_than_a_month(
    harness: Harness, record_property: Record
) -> None:
    paused: list[int] = []
    resumed: list[int] = []
    for minutes in (MONTH, YEAR):
        paused.append(first_tick(harness, minutes, STRATEGIES["last"], paused=True).peak)
        job = JobRow.objects.get()
        resumed.append(
            measure(partial(run_skipped, job, choice="compressed", since=BEGIN, now=harness.now)).peak
        )
        assert Occurrence.objects.get(cause="recovery").covers is not None
    record_property("peaks", str((paused, resumed)))
    assert paused[1] < paused[0] + GROWTH
    assert resumed[1] < resumed[0] + GROWTH


@pytest.mark.parametrize("strategy", [*STRATEGIES, "widest"])
def test_a_year_is_recovered_in_seconds(harness: Harness, strategy: str, record_property: Record) -> None:
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
