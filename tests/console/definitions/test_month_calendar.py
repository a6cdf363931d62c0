"""A month of a job on its own clock: outcomes, planned instants, clock changes."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from punctual.console.definitions.month_calendar import (
    Days,
    InstantCounts,
    clock_changes,
    count_instants,
    next_month,
    parse_month,
    weeks,
)
from punctual.occurrences.states import OccurrenceState as S
from tests.console.fixtures import page
from tests.console.ledger_rows import make_job, make_occurrence

pytestmark = pytest.mark.req("OPS-2")

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("month", "zone", "expected"),
    [
        ("2026-03", "Europe/Berlin", {date(2026, 3, 29): "clocks +60 min"}),
        ("2026-10", "Europe/Berlin", {date(2026, 10, 25): "clocks −60 min"}),
        ("2026-04", "Australia/Lord_Howe", {date(2026, 4, 5): "clocks −30 min"}),
        ("2026-03", "UTC", {}),
    ],
)
def test_days_on_which_clocks_change_are_marked(month: str, zone: str, expected: dict[date, str]) -> None:
    assert clock_changes(parse_month(month, date(2026, 1, 1)), ZoneInfo(zone)) == expected


@pytest.mark.django_db
def test_days_are_those_of_the_jobs_clock(now: datetime) -> None:
    job = make_job("etl", now, schedule="TZ=Europe/Berlin 0 0 * * *")
    late = datetime(2026, 1, 2, 23, 30, tzinfo=UTC)  # the third, in Berlin
    make_occurrence(job, late, S.FAILED)
    make_occurrence(job, datetime(2025, 12, 31, 22, 59, tzinfo=UTC))
    missed = {"spans_until": late + timedelta(hours=9), "instants": 4, "started_at": None}
    make_occurrence(job, late + timedelta(hours=6), S.MISSED, **missed)
    found = count_instants(job, date(2026, 1, 1), BERLIN, now).counts
    assert found[date(2026, 1, 3), "bad"] == 1
    assert found[date(2026, 1, 3), "none"] == 4
    ahead = {day for day, look in found if look == "planned"}
    assert ahead == {date(2026, 1, day) for day in range(6, 32)}
    assert date(2025, 12, 31) not in {day for day, _ in found}


@pytest.mark.django_db
def test_a_disabled_job_plans_nothing(now: datetime) -> None:
    job = make_job("etl", now, enabled=False)
    assert count_instants(job, date(2026, 1, 1), BERLIN, now) == InstantCounts({})


@pytest.mark.django_db
def test_a_month_with_too_many_rows_counts_the_newest_and_says_so(
    root: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("punctual.console.definitions.month_calendar.MAX_COUNTED", 3)
    job = make_job("etl", now, schedule="@once 2020-01-01T00:00:00Z")
    for minute in range(5):
        make_occurrence(job, datetime(2026, 1, 3, 0, minute, tzinfo=UTC))
    found = count_instants(job, date(2026, 1, 1), BERLIN, now)
    assert found == InstantCounts(
        {(date(2026, 1, 3), "good"): 3}, since=datetime(2026, 1, 3, 0, 1, tzinfo=UTC)
    )
    assert "Only the newest 3" in page(root, f"/admin/punctual/job/{job.pk}/change/?month=2026-01")
    monkeypatch.setattr("punctual.console.definitions.month_calendar.MAX_COUNTED", 5)
    assert count_instants(job, date(2026, 1, 1), BERLIN, now).since is None


@pytest.mark.django_db
def test_a_dense_schedule_says_up_to_when_it_is_counted(root: Client, now: datetime) -> None:
    dense, sparse = make_job("dense", now, schedule="* * * * *"), make_job("sparse", now)
    assert "Planned are shown the next 400" in page(root, f"/admin/punctual/job/{dense.pk}/change/")
    assert "Planned are shown" not in page(root, f"/admin/punctual/job/{sparse.pk}/change/")


def test_weeks_are_whole_and_only_days_of_the_month_have_counts() -> None:
    counts = {(date(2026, 1, 1), "good"): 2, (date(2025, 12, 31), "bad"): 9}
    found = weeks(date(2026, 1, 1), date(2026, 1, 1), Days(counts))
    first = next(cell for cell in found[0] if cell.inside)
    assert [len(week) for week in found] == [7] * 5
    assert first.today
    assert [(look, count) for look, _, count, _ in first.counts] == [("good", 2)]
    assert not [cell for cell in found[0] if not cell.inside and cell.counts]


def test_an_invalid_month_means_the_current_one() -> None:
    assert parse_month("nonsense", date(2026, 5, 9)) == date(2026, 5, 1)
    assert next_month(date(2026, 12, 1)) == date(2027, 1, 1)


@pytest.mark.django_db
def test_the_page_of_a_job_shows_the_requested_month(root: Client, now: datetime) -> None:
    job = make_job("etl", now, schedule="TZ=Europe/Berlin 0 2 * * *")
    text = page(root, f"/admin/punctual/job/{job.pk}/change/?month=2026-03")
    assert "March 2026" in text
    assert "clocks +60 min" in text
    assert "?month=2026-02" in text
