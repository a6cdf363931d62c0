"""Cron fields: what each accepts and which instants it produces."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from punctual.schedules import chronex
from punctual.schedules.chronex import ChronexError
from tests.schedules.oracle import utc


def instants(text: str, start: datetime, days: int) -> list[datetime]:
    return list(chronex.parse(text).between(start, start + timedelta(days=days)))


def hours_of(text: str) -> list[int]:
    return [instant.hour for instant in instants(f"0 {text} * * *", utc(2026, 1, 4, 23, 59), 1)]


def days_of(text: str, year: int, month: int) -> list[int]:
    start = utc(year, month, 1) - timedelta(seconds=1)
    return [instant.day for instant in instants(f"0 0 {text}", start, 31) if instant.month == month]


@pytest.mark.req("CHX-1")
@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@HOURLY", "0 * * * *"),
    ],
)
def test_aliases_stand_for_their_fields(alias: str, fields: str) -> None:
    assert chronex.parse(alias) == chronex.parse(fields)
    assert str(chronex.parse(alias)) == fields


@pytest.mark.req("CHX-1")
def test_a_sixth_field_in_front_names_seconds() -> None:
    firings = instants("*/20 30 9 * * *", utc(2026, 1, 1), 1)
    assert firings == [utc(2026, 1, 1, 9, 30, second) for second in (0, 20, 40)]
    assert instants("30 9 * * *", utc(2026, 1, 1), 1) == [utc(2026, 1, 1, 9, 30)]


@pytest.mark.req("CHX-1")
@pytest.mark.parametrize("text", ["0 0 * jan MON", "0 0 * Jan mOn", "  0  0\t* JAN   mon \n"])
def test_names_are_case_insensitive_and_blanks_do_not_count(text: str) -> None:
    assert chronex.parse(text).canonical == "0 0 * 1 1"


@pytest.mark.req("CHX-1")
@pytest.mark.parametrize("text", ["0 0 l * *", "0 0 lw * *", "0 0 15w * *", "0 0 * * fril", "0 0 * * 5l"])
def test_the_marks_l_and_w_are_case_sensitive(text: str) -> None:
    with pytest.raises(ChronexError):
        chronex.parse(text)


@pytest.mark.req("CHX-2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5/7", [5, 12, 19]),
        ("*/7", [0, 7, 14, 21]),
        ("22-4/2", [0, 2, 4, 22]),
        ("23-1", [0, 1, 23]),
        ("8-18/5,3", [3, 8, 13, 18]),
        ("*/100", [0]),
        ("7-7", [7]),
    ],
)
def test_steps_and_reversed_ranges(text: str, expected: list[int]) -> None:
    assert sorted(hours_of(text)) == expected


@pytest.mark.req("CHX-2")
def test_day_ranges_wrap_at_the_31st_and_months_at_december() -> None:
    assert days_of("30-2 * *", 2026, 1) == [1, 2, 30, 31]
    months = {instant.month for instant in instants("0 0 1 NOV-FEB *", utc(2025, 12, 31), 366)}
    assert months == {11, 12, 1, 2}


@pytest.mark.req("CHX-2")
@pytest.mark.parametrize(
    ("text", "weekdays"),
    [
        ("7", {0}),
        ("0-7", {0, 1, 2, 3, 4, 5, 6}),
        ("FRI-MON", {5, 6, 0, 1}),
        ("5-7", {5, 6, 0}),
        ("7-2", {0, 1, 2}),
        ("7-2/2", {0, 2}),
        ("1/2", {1, 3, 5, 0}),
        ("7/2", {0}),
        ("0-7/7", {0}),
        ("1-7/2", {1, 3, 5, 0}),
    ],
)
def test_seven_is_sunday(text: str, weekdays: set[int]) -> None:
    expression = chronex.parse(f"0 0 * * {text}")
    firings = expression.between(utc(2026, 3, 1), utc(2026, 3, 8))
    assert {instant.isoweekday() % 7 for instant in firings} == weekdays
    assert chronex.parse(expression.canonical) == expression
    again = chronex.parse(expression.canonical).between(utc(2026, 3, 1), utc(2026, 3, 8))
    assert {instant.isoweekday() % 7 for instant in again} == weekdays
    assert "7" not in expression.canonical.split()[4].split("/")[0]


@pytest.mark.req("CHX-3")
@pytest.mark.parametrize(
    ("text", "year", "month", "expected"),
    [
        ("L * *", 2026, 2, [28]),
        ("L * *", 2028, 2, [29]),
        ("LW * *", 2026, 2, [27]),  # 28 February 2026 is a Saturday
        ("LW * *", 2026, 5, [29]),  # 31 May 2026 is a Sunday: never into June
        ("L-3 * *", 2026, 2, [25]),
        ("L-30 * *", 2026, 2, []),
        ("L-30 * *", 2026, 3, [1]),
        ("15W * *", 2026, 3, [16]),  # a Sunday
        ("14W * *", 2026, 3, [13]),  # a Saturday
        ("1W * *", 2026, 8, [3]),  # a Saturday at the start of the month
        ("31W * *", 2026, 2, [27]),  # clamped to the 28th, a Saturday
        ("17W * *", 2026, 3, [17]),
        ("* * 5L", 2026, 3, [27]),
        ("* * FRIL", 2026, 3, [27]),
        ("* * 7L", 2026, 3, [29]),
        ("* * 1#2", 2026, 3, [9]),
        ("* * MON#2", 2026, 3, [9]),
        ("* * MON#5", 2026, 3, [30]),
        ("* * MON#5", 2026, 4, []),
    ],
)
def test_days_counted_within_the_month(text: str, year: int, month: int, expected: list[int]) -> None:
    assert days_of(text, year, month) == expected


@pytest.mark.req("CHX-3")
@pytest.mark.parametrize(
    "text",
    ["L,1 * *", "1,15W * *", "LW-2 * *", "15W/2 * *", "0W * *", "32W * *", "L-0 * *", "L-31 * *", "W * *"],
)
def test_month_day_marks_stand_alone_and_in_range(text: str) -> None:
    with pytest.raises(ChronexError) as caught:
        chronex.parse(f"0 0 {text}")
    assert {item.code for item in caught.value.errors} <= {"E004", "E007"}


@pytest.mark.req("CHX-3")
@pytest.mark.parametrize("text", ["MON#2,3", "MON#0", "MON#6", "8#1", "XYZL", "L", "5L-2", "#2", "1#2#3"])
def test_week_day_marks_stand_alone_and_in_range(text: str) -> None:
    with pytest.raises(ChronexError) as caught:
        chronex.parse(f"0 0 * * {text}")
    assert [item.code for item in caught.value.errors] == ["E006"]


@pytest.mark.req("CHX-4")
def test_either_day_field_is_enough_when_both_are_restricted() -> None:
    assert days_of("1,15 * FRI", 2026, 5) == [1, 8, 15, 22, 29]
    assert days_of("1,16 * FRI", 2026, 5) == [1, 8, 15, 16, 22, 29]
    assert days_of("* * FRI", 2026, 5) == [1, 8, 15, 22, 29]
    assert days_of("1,16 * *", 2026, 5) == [1, 16]


@pytest.mark.req("CHX-4")
def test_a_step_over_all_days_counts_as_a_restriction() -> None:
    odd = list(range(1, 32, 2))
    assert days_of("*/2 * MON", 2026, 5) == sorted({*odd, 4, 11, 18, 25})
    assert days_of("13 * */7", 2026, 5) == [3, 10, 13, 17, 24, 31]
