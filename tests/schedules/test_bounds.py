"""A start and an end for every kind, in its text."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

import pytest

from punctual import schedules
from punctual.schedules import FixedDelay, bound, is_within
from tests.schedules.oracle import utc

START = utc(2026, 1, 1)
HOUR = timedelta(hours=1)
KINDS = [
    ("posix:0 * * * *", "posix"),
    ("iso8601:R/2026-01-01T00:30:00Z/PT1H", "iso8601"),
    ("kron:0 * * * *", "kron"),
    ("chronex:0 * * * *", "chronex"),
    ("0 * * * *", "chronex"),
    ("@every 1h", "chronex"),
]


@pytest.mark.req("ISO-4")
@pytest.mark.parametrize("text", [text for text, _ in KINDS])
def test_a_text_of_any_kind_may_name_its_start_and_its_end(text: str) -> None:
    whole = schedules.parse(text, reference=START)
    begin, end = utc(2026, 1, 2, 3), utc(2026, 1, 2, 6)
    bounded = schedules.parse(
        f"{text} {{from:2026-01-02T03:00:00Z, until:2026-01-02T06:00:00Z}}", reference=START
    )
    expected = [at for at in whole.between(START, end) if at >= begin]
    if text.startswith("@every"):
        expected = [at for at in expected if at > begin]  # CHX-8: the first fire is one interval after it
    assert list(bounded.between(START, utc(2027, 1, 1))) == expected
    assert bounded.next_after(START) == expected[0], "the phase stays"
    assert bounded.next_after(end) is None
    assert schedules.parse(str(bounded), reference=START) == bounded


@pytest.mark.req("ISO-4")
def test_a_single_instant_outside_its_bounds_does_not_fire() -> None:
    assert schedules.parse("once:2026-06-01T00:00:00Z {until:2026-05-01}").next_after(START) is None
    assert schedules.parse("once:2026-06-01T00:00:00Z {until:2026-06-01}").next_after(START) is not None


@pytest.mark.req("ISO-4")
@pytest.mark.req("TSK-7")
def test_a_fixed_delay_starts_nothing_before_its_start_or_after_its_end() -> None:
    schedule = schedules.parse("delay:1h {from:2026-01-02, until:2026-01-02T01:30:00Z}")
    assert isinstance(schedule, FixedDelay)
    assert schedule.next_after(START) == utc(2026, 1, 2), "not one delay after its start"
    assert list(schedule.between(START, utc(2027, 1, 1))) == [utc(2026, 1, 2), utc(2026, 1, 2, 1)]
    assert schedule.next_after(utc(2026, 1, 2, 0, 45)) is None
    assert str(schedules.parse(str(schedule))) == str(schedule)


@pytest.mark.req("ISO-4")
def test_dates_are_in_the_zone_of_the_schedule() -> None:
    caller = schedules.parse("posix:0 * * * * {from:2026-06-01}", timezone="Asia/Seoul")
    assert caller.next_after(START) == utc(2026, 5, 31, 15)
    own = schedules.parse("kron:0 * * * * @tz(Europe/Berlin) {until:2026-06-01}", timezone="Asia/Seoul")
    assert own.next_after(utc(2026, 6, 1, 20)) == utc(2026, 6, 1, 21)
    assert own.next_after(utc(2026, 6, 1, 21)) is None


@pytest.mark.req("ISO-4")
@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("posix:0 9 * * * {jitter:5m}", "E015", 17),
        ("posix:0 9 * * * {jiter:5m}", "E015", 17),
        ("posix:0 9 * * * {from:soon}", "E016", 22),
        ("posix:0 9 * * * {until:2026-01-01, from:2026-02-01}", "E020", 40),
        ("iso8601:R/2026-01-01T00:00:00Z/P1D {}", "E015", 36),
    ],
)
def test_a_wrong_block_is_refused_at_its_place(text: str, code: str, position: int) -> None:
    with pytest.raises(schedules.ChronexError) as caught:
        schedules.parse(text)
    assert (caught.value.code, caught.value.position) == (code, position)


@pytest.mark.req("ISO-4")
@pytest.mark.parametrize(
    "text",
    [
        "@daily {from:2026-02-01, until:2026-03-01}",
        "posix:0 0 * * * {from:2026-02-01, until:2026-03-01}",
        "delay:1h {from:2026-02-01, until:2026-03-01}",
    ],
)
def test_a_schedule_is_within_its_bounds_from_the_first_to_the_last_instant(text: str) -> None:
    schedule = schedules.parse(text)
    inside: list[datetime] = [utc(2026, 2, 1), utc(2026, 2, 15), utc(2026, 3, 1, 23)]
    outside = [utc(2026, 1, 31, 23), utc(2026, 3, 2)]
    assert all(is_within(schedule, at) for at in inside)
    assert not any(is_within(schedule, at) for at in outside)
    assert is_within(schedules.parse("once:2026-01-01T00:00:00Z"), utc(2030, 1, 1))


@pytest.mark.req("ISO-4")
def test_a_schedule_can_be_bounded_in_code() -> None:
    delayed = bound(FixedDelay(HOUR), end=START + HOUR)
    assert list(islice(delayed.between(START, START + 9 * HOUR), 3)) == [START + HOUR]
    assert str(bound(schedules.parse("@daily"))) == "0 0 * * *"
    assert bound(schedules.parse("@daily"), start=START) == bound(schedules.parse("@daily"), start=START)
