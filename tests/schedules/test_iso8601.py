"""Repeating intervals, counted from their start, on the local calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual import schedules
from punctual.schedules import iso8601, once
from punctual.schedules.errors import Iso8601Error
from tests.schedules.oracle import utc
from tests.schedules.strategies import instants, prop

EVER = utc(1000, 1, 1), utc(9000, 1, 1)


def dates(text: str, timezone: str | None = None, count: int = 12) -> list[str]:
    firings = iso8601.parse(text, timezone=timezone).between(*EVER)
    return [f"{instant:%m-%d %H:%M}" for _, instant in zip(range(count), firings, strict=False)]


@pytest.mark.req("ISO-1")
def test_the_start_is_the_first_occurrence_and_n_counts_all_of_them() -> None:
    assert dates("R3/2026-01-01T00:00:00Z/P1D") == ["01-01 00:00", "01-02 00:00", "01-03 00:00"]
    assert dates("R1/2026-01-01T00:00:00Z/P1D") == ["01-01 00:00"]
    repeating = iso8601.parse("R3/2026-01-01T00:00:00Z/P1D")
    assert repeating.next_after(utc(2020, 1, 1)) == utc(2026, 1, 1)
    assert repeating.next_after(utc(2026, 1, 1)) == utc(2026, 1, 2)
    assert repeating.next_after(utc(2026, 1, 3)) is None
    assert repeating.next_after(utc(2200, 1, 1)) is None


@pytest.mark.req("ISO-1")
@pytest.mark.parametrize("text", ["R/2026-01-01T00:00:00Z/PT1S", "2026-01-01T00:00:00Z/PT1S"])
def test_without_a_number_it_goes_on_for_ever(text: str) -> None:
    repeating = iso8601.parse(text)
    assert repeating.next_after(utc(2100, 1, 1)) == utc(2100, 1, 1, 0, 0, 1)
    assert repeating.next_after(datetime.max.replace(tzinfo=UTC)) is None


@pytest.mark.req("ISO-1")
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "interval"),
        ("P1D", "interval"),
        ("R/2026-01-01T00:00:00Z/P1D/x", "interval"),
        ("R0/2026-01-01T00:00:00Z/P1D", "repetitions"),
        ("R-1/2026-01-01T00:00:00Z/P1D", "repetitions"),
        ("R٣/2026-01-01T00:00:00Z/P1D", "repetitions"),
        ("X/2026-01-01T00:00:00Z/P1D", "repetitions"),
        ("R/yesterday/P1D", "start"),
        ("R/2026-02-30T00:00:00Z/P1D", "start"),
        ("R/2026-01-01T00:00:00Z/P", "duration"),
        ("R/2026-01-01T00:00:00Z/PT", "duration"),
        ("R/2026-01-01T00:00:00Z/P0D", "duration"),
        ("R/2026-01-01T00:00:00Z/PT0S", "duration"),
        ("R/2026-01-01T00:00:00Z/P-1D", "duration"),
        ("R/2026-01-01T00:00:00Z/1D", "duration"),
        ("R/2026-01-01T00:00:00Z/P1H", "duration"),
        ("R/2026-01-01T00:00:00Z/P٣D", "duration"),
        ("R/2026-01-01T00:00:00Z/P9999999Y", "duration"),
    ],
)
def test_bad_text_names_the_part(text: str, part: str) -> None:
    with pytest.raises(Iso8601Error) as caught:
        iso8601.parse(text)
    assert caught.value.field == part
    assert str(caught.value).startswith(f"{part}: ")


@pytest.mark.req("ISO-2")
def test_months_are_counted_from_the_start_and_clamped() -> None:
    assert dates("R4/2026-01-31T00:00:00Z/P1M") == [
        "01-31 00:00",
        "02-28 00:00",
        "03-31 00:00",
        "04-30 00:00",
    ]
    leap = [
        instant.date().isoformat() for instant in iso8601.parse("R5/2024-02-29T00:00:00Z/P1Y").between(*EVER)
    ]
    assert leap == ["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]


@pytest.mark.req("ISO-2")
def test_a_day_keeps_the_wall_clock_and_24_hours_do_not() -> None:
    start = "2026-03-28T09:00:00"
    assert dates(f"R3/{start}/P1D", "Europe/Berlin") == ["03-28 08:00", "03-29 07:00", "03-30 07:00"]
    assert dates(f"R3/{start}/PT24H", "Europe/Berlin") == ["03-28 08:00", "03-29 08:00", "03-30 08:00"]
    assert dates("R2/2026-03-28T02:30:00/P1D", "Europe/Berlin") == [
        "03-28 01:30",
        "03-29 01:00",
    ]  # in the gap
    assert dates("R2/2026-03-28T08:00:00Z/P1D", "Europe/Berlin") == ["03-28 08:00", "03-29 07:00"]
    assert dates("R2/2026-03-28T09:00:00+01:00/P1D") == ["03-28 08:00", "03-29 08:00"]


@pytest.mark.req("ISO-2")
def test_months_then_days_then_elapsed_time() -> None:
    assert dates("R3/2026-01-31T22:00:00Z/P1M1DT3H") == ["01-31 22:00", "03-02 01:00", "04-03 04:00"]
    assert dates("R2/2026-01-01T00:00:00Z/P1W2DT1H1M1.5S") == ["01-01 00:00", "01-10 01:01"]
    assert dates("R2/2026-01-01/P2Y") == ["01-01 00:00", "01-01 00:00"]
    assert dates("R2/2026-01-01T10:30Z/PT15M") == ["01-01 10:30", "01-01 10:45"]
    assert dates("R2/2026-01-01T10:30+02:00/PT15M") == ["01-01 08:30", "01-01 08:45"]


@pytest.mark.req("ISO-2")
def test_two_days_that_share_an_instant_fire_once() -> None:
    # In Samoa 30 December 2011 was left out: its midnight and the next one are the same instant.
    firings = list(iso8601.parse("R4/2011-12-28T00:00:00/P1D", "Pacific/Apia").between(*EVER))
    assert firings == [utc(2011, 12, 28, 10), utc(2011, 12, 29, 10), utc(2011, 12, 30, 10)]


@pytest.mark.req("ISO-2")
@prop
@given(
    st.sampled_from(
        ["P1M", "P1Y", "P1D", "P3W", "PT7M", "PT36H", "P1M1D", "P5M3DT5H", "P1DT1H", "P13M", "P1W"]
    ),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"]),
    instants(1975, 2080),
    st.integers(0, 400),
)
def test_next_after_is_the_first_of_the_counted_occurrences_that_is_later(
    duration: str, zone: str, start: datetime, index: int
) -> None:
    repeating = iso8601.parse(f"R/{start:%Y-%m-%dT%H:%M:%SZ}/{duration}", zone)
    occurrences = [repeating.occurrence(k) for k in range(index, index + 3)]
    at = occurrences[1]
    assert at is not None
    later = [
        instant for instant in occurrences if instant is not None and instant > at - timedelta(microseconds=1)
    ]
    assert repeating.next_after(at - timedelta(microseconds=1)) == later[0]
    assert occurrences == sorted(occurrences, key=lambda instant: instant or at)
    assert (repeating.next_after(at) or at) > at


@pytest.mark.req("ISO-2")
def test_the_end_of_the_calendar_ends_the_schedule() -> None:
    repeating = iso8601.parse("R/2026-01-01T00:00:00Z/P999999Y")
    assert repeating.next_after(utc(2026, 1, 1)) is None
    assert iso8601.parse("R/9990-01-31T00:00:00/P1M", "Europe/Berlin").next_after(utc(9998, 12, 31)) is None
    assert iso8601.parse("R/2026-01-01T00:00:00Z/P999999D").next_after(utc(9998, 1, 1)) is None
    with pytest.raises(Iso8601Error):
        iso8601.parse("R/9998-12-31T00:00:00/P1D", "Europe/Berlin")


@pytest.mark.req("ISO-1")
def test_intervals_are_parsed_by_their_prefix() -> None:
    schedule = schedules.parse("iso8601:R2/2026-01-01T00:00:00/P1D", timezone="Asia/Seoul")
    assert list(schedule.between(*EVER)) == [utc(2025, 12, 31, 15), utc(2026, 1, 1, 15)]
    assert str(schedule) == "iso8601:R2/2026-01-01T00:00:00/P1D"


@pytest.mark.req("ISO-3")
def test_once_is_a_schedule_of_one_instant() -> None:
    single = once.at(utc(2026, 1, 1))
    assert single.next_after(utc(2025, 1, 1)) == utc(2026, 1, 1)
    assert single.next_after(utc(2026, 1, 1)) is None
    assert list(single.between(utc(2025, 12, 31), utc(2026, 1, 1))) == [utc(2026, 1, 1)]
    assert list(single.between(utc(2026, 1, 1), utc(2026, 1, 2))) == []
    assert schedules.parse("once:2026-01-01T09:00:00", timezone="Asia/Seoul") == single
    assert str(single) == "once:2026-01-01T00:00:00Z"
    assert str(once.at(utc(2026, 1, 1) + timedelta(milliseconds=250))) == "once:2026-01-01T00:00:00.250Z"
    assert str(once.at(utc(2026, 1, 1) + timedelta(microseconds=7))) == "once:2026-01-01T00:00:00.000007Z"
    with pytest.raises(Iso8601Error) as caught:
        schedules.parse("once:whenever")
    assert caught.value.field == "once"
