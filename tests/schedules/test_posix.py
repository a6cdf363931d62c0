"""The strict POSIX dialect: what it rejects and which minutes it fires."""

from __future__ import annotations

import pickle
from datetime import timedelta, timezone

import pytest

from punctual import schedules
from punctual.schedules import posix
from punctual.schedules.errors import CronCalculationError, InvalidCronExpressionError
from tests.schedules.oracle import utc


def parse_error(text: str) -> InvalidCronExpressionError:
    with pytest.raises(InvalidCronExpressionError) as caught:
        posix.parse(text)
    return caught.value


@pytest.mark.req("PSX-1")
@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("* * * *", "expression", "must have exactly 5 fields, got 4"),
        ("* * * * * *", "expression", "must have exactly 5 fields, got 6"),
        ("", "expression", "must have exactly 5 fields, got 0"),
        ("*/15 * * * *", "minute", "must not use step syntax"),
        ("0 1-5/2 * * *", "hour", "must not use step syntax"),
        ("0 0 * jan *", "month", "must not use named values, got jan"),
        ("0 0 * * mon", "weekday", "must not use named values, got mon"),
        ("@daily", "expression", "must not use macro expressions"),
        ("@a * * * *", "minute", "must not use macro expressions"),
        ("0 0 ? * *", "day", "must not use Quartz tokens"),
        ("0 0 L * *", "day", "must not use named values, got L"),
        ("0 0 15W * *", "day", "must be decimal numbers, ranges or *, got '15W'"),
        ("0 0 * * 1#2", "weekday", "must not use Quartz tokens"),
        ("0 0 * * 7", "weekday", "value 7 out of range [0, 6]"),
        ("0 22-4 * * *", "hour", "must not wrap around, got 22-4"),
        ("60 * * * *", "minute", "value 60 out of range [0, 59]"),
        ("0 0 0 * *", "day", "value 0 out of range [1, 31]"),
        ("0 0 * 13 *", "month", "value 13 out of range [1, 12]"),
        ("1e1 * * * *", "minute", "must be decimal numbers, ranges or *, got '1e1'"),
        ("0x1 * * * *", "minute", "must be decimal numbers, ranges or *, got '0x1'"),
        ("+1 * * * *", "minute", "must be decimal numbers, ranges or *, got '+1'"),
        ("-1 * * * *", "minute", "must be decimal numbers, ranges or *, got ''"),
        ("*,5 * * * *", "minute", "must be decimal numbers, ranges or *, got '*'"),
        ("5,* * * * *", "minute", "must be decimal numbers, ranges or *, got '*'"),
        ("1, * * * *", "minute", "must be decimal numbers, ranges or *, got ''"),
        ("٣ * * * *", "minute", "must be decimal numbers, ranges or *, got '٣'"),
        ("0 0 * * *\n", "weekday", "must be decimal numbers, ranges or *, got '*\\n'"),
        ("9" * 100 + " * * * *", "minute", "value 99999999999999999999 out of range [0, 59]"),
        ("* " * 9000, "expression", "must not be longer than 4096 characters"),
    ],
)
def test_rejections_name_field_and_reason(text: str, field: str, reason: str) -> None:
    error = parse_error(text)
    assert (error.field, error.reason, error.expression) == (field, reason, text)


@pytest.mark.req("PSX-2")
@pytest.mark.parametrize("value", [None, 5, ["*"], b"* * * * *"])
def test_what_is_not_text_is_refused_like_bad_text(value: object) -> None:
    assert parse_error(value).field == "expression"  # type: ignore[arg-type]  # the point of the test


@pytest.mark.req("PSX-1")
def test_leading_zeros_tabs_and_outer_blanks_are_fine() -> None:
    cron = posix.parse("\t 005,007-009\t01  *  * 00 ")
    assert cron.next_after(utc(2026, 1, 1), "UTC") == utc(2026, 1, 4, 1, 5)
    assert cron.next_after(utc(2026, 1, 4, 1, 5), "UTC") == utc(2026, 1, 4, 1, 7)


@pytest.mark.req("PSX-2")
def test_the_error_carries_expression_field_and_reason_and_names_the_leftmost() -> None:
    error = parse_error("60 24 * * 7")
    assert error.field == "minute"
    assert str(error) == 'Invalid cron expression "60 24 * * 7": minute field value 60 out of range [0, 59]'
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 -- our own bytes
    assert parse_error("0 24 * * 7").field == "hour"
    assert isinstance(error, schedules.ScheduleError)


@pytest.mark.req("PSX-3")
def test_restricted_is_textual() -> None:
    start = utc(2026, 5, 1)
    either = posix.parse("0 0 13 * 0-6")  # every weekday spelled out is still a restriction
    assert either.next_after(start, "UTC") == utc(2026, 5, 2)
    assert posix.parse("0 0 13 * *").next_after(start, "UTC") == utc(2026, 5, 13)
    assert posix.parse("0 0 * * 3").next_after(start, "UTC") == utc(2026, 5, 6)
    both = posix.parse("0 0 13 * 3")
    assert both.next_after(utc(2026, 5, 6), "UTC") == utc(2026, 5, 13)
    assert both.next_after(utc(2026, 6, 10), "UTC") == utc(2026, 6, 13)


@pytest.mark.req("PSX-4")
@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30,31 02 *"])
def test_an_expression_that_never_fires_is_refused_at_once(text: str) -> None:
    assert parse_error(text).field == "day"


@pytest.mark.req("PSX-4")
def test_rare_expressions_are_accepted_and_found_within_ten_years() -> None:
    cron = posix.parse("0 0 29 2 *")
    assert cron.next_after(utc(2096, 3, 1), "UTC") == utc(2104, 2, 29)
    assert cron.previous_at(utc(2104, 2, 28), "UTC") == utc(2096, 2, 29)
    assert posix.parse("0 0 30 2 1").next_after(utc(2026, 2, 1), "UTC") == utc(2026, 2, 2)


@pytest.mark.req("PSX-4")
def test_no_result_is_an_error_with_its_cause() -> None:
    with pytest.raises(CronCalculationError) as caught:
        posix.parse("0 0 29 2 *").previous_at(utc(3, 1, 1), "UTC")
    error = caught.value
    assert (error.expression, error.current_time) == ("0 0 29 2 *", "0003-01-01T00:00:00+00:00")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 -- our own bytes


@pytest.mark.req("PSX-2")
@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        (utc(2026, 5, 15, 12, 45), utc(2026, 5, 15, 12, 30)),
        (utc(2026, 5, 15, 12, 30), utc(2026, 5, 15, 12, 30)),
        (utc(2026, 5, 15, 12, 29, 59), utc(2026, 5, 15, 12)),
        (utc(2026, 5, 15, 11, 59), utc(2026, 5, 15, 6, 30)),
        (utc(2026, 5, 15, 5, 59), utc(2026, 5, 1, 12, 30)),
        (utc(2026, 4, 30), utc(2025, 6, 15, 12, 30)),
        (utc(2026, 6, 1, 6), utc(2026, 6, 1, 6)),
        (utc(2026, 6, 1, 5), utc(2026, 5, 15, 12, 30)),
    ],
)
def test_the_previous_minute_is_at_or_before_the_instant(instant: object, expected: object) -> None:
    cron = posix.parse("0,30 6,12 1,15 5,6 *")
    assert cron.previous_at(instant, "UTC") == expected  # type: ignore[arg-type]


@pytest.mark.req("PSX-5")
def test_the_minute_around_an_instant_matches_or_does_not() -> None:
    cron = posix.parse("30 9 * * *")
    assert cron.matches(utc(2026, 5, 15, 7, 30, 59), "Europe/Berlin")
    assert not cron.matches(utc(2026, 5, 15, 7, 31), "Europe/Berlin")
    assert cron.matches(utc(2026, 5, 15, 4), timezone(timedelta(hours=5, minutes=30)))


@pytest.mark.req("PSX-2")
def test_patterns_are_values() -> None:
    assert posix.parse("0 0 * * *") == posix.parse("0 0 * * *")
    assert posix.parse("0 0 * * *") != posix.parse("00 0 * * *")
    assert str(posix.parse("0 0 * * *")) == "0 0 * * *"
    zoned = schedules.parse("posix: 0 0 * * *", timezone="Asia/Seoul")
    assert str(zoned) == "posix:0 0 * * *"
    assert zoned.next_after(utc(2026, 1, 1)) == utc(2026, 1, 1, 15)
    assert list(zoned.between(utc(2026, 1, 1), utc(2026, 1, 3))) == [utc(2026, 1, 1, 15), utc(2026, 1, 2, 15)]


@pytest.mark.req("PSX-4")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_before_the_first_supported_year_there_is_no_previous_minute(zone: str) -> None:
    cron = posix.parse("0 0 * * *")
    with pytest.raises(CronCalculationError):
        cron.previous_at(utc(1, 6, 1), zone)
    assert cron.previous_at(utc(2, 1, 3), zone) > utc(2, 1, 1)


@pytest.mark.req("PSX-4")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Seoul", "America/New_York"])
@pytest.mark.parametrize("text", ["0 0 1 1 *", "59 23 31 12 *", "* * * * *"])
def test_at_the_first_day_of_the_calendar_the_search_ends(text: str, zone: str) -> None:
    with pytest.raises(CronCalculationError):
        posix.parse(text).previous_at(utc(1, 1, 1), zone)
