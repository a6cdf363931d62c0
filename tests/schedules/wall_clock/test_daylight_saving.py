"""Daylight saving changes, on real dates of real zones."""

from __future__ import annotations

from calendar import isleap
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.schedules import chronex, posix
from punctual.schedules.errors import CronCalculationError
from punctual.schedules.utc import EARLIEST, LATEST
from punctual.schedules.wall_clock.recurrence import Recurrence
from punctual.schedules.wall_clock.timetable import Pattern, Timetable
from punctual.schedules.wall_clock.zones import CHRONEX_FIXED, CHRONEX_INTERVAL, POSIX, Fold, Gap, find_zone
from tests.schedules import oracle
from tests.schedules.oracle import utc
from tests.schedules.strategies import patterns, prop

SPRING = utc(2026, 3, 29, 1)  # Berlin: 02:00 becomes 03:00
AUTUMN = utc(2026, 10, 25, 1)  # Berlin: 03:00 becomes 02:00
HOUR = timedelta(hours=1)


def around(text: str, jump: datetime, zone: str = "Europe/Berlin", hours: int = 3) -> list[str]:
    expression = chronex.parse(text, timezone=zone)
    instants = expression.between(jump - hours * HOUR, jump + hours * HOUR)
    return [f"{instant:%H:%M}" for instant in instants]


@pytest.mark.req("CHX-6")
def test_a_time_in_the_gap_fires_at_the_first_instant_after_it() -> None:
    assert around("30 2 * * *", SPRING) == ["01:00"]
    assert around("15,30,45 2 * * *", SPRING) == ["01:00"]


@pytest.mark.req("CHX-6")
def test_gap_firings_merge_with_what_is_due_then() -> None:
    assert around("0,30 2,3 * * *", SPRING) == ["01:00", "01:30"]
    assert around("*/30 * * * *", SPRING, hours=1) == ["00:30", "01:00", "01:30", "02:00"]
    assert around("30 * * * *", SPRING, hours=1) == ["00:30", "01:00", "01:30"]


@pytest.mark.req("CHX-6")
def test_a_fixed_time_in_the_fold_fires_in_the_first_pass_only() -> None:
    assert around("30 2 * * *", AUTUMN) == ["00:30"]
    assert around("0,59 2,3 * * *", AUTUMN, hours=3) == ["00:00", "00:59", "02:00", "02:59"]
    expression = chronex.parse("TZ=Europe/Berlin 30 2 * * *")
    inside_second_pass = AUTUMN + timedelta(minutes=10)
    assert expression.next_after(inside_second_pass) == utc(2026, 10, 26, 1, 30)


@pytest.mark.req("CHX-6")
@pytest.mark.parametrize("text", ["30 * * * *", "30 1-3 * * *", "30 */1 * * *", "30-30 1,2,3 * * *"])
def test_interval_patterns_fire_in_both_passes(text: str) -> None:
    assert around(text, AUTUMN, hours=2)[1:3] == ["00:30", "01:30"]


@pytest.mark.req("CHX-6")
def test_a_star_among_the_days_does_not_make_an_interval() -> None:
    assert around("30 2 */1 * 0-7", AUTUMN) == ["00:30"]
    assert around("0 30 2 * * *", AUTUMN) == ["00:30"]
    assert around("0-0 30 2 * * *", AUTUMN) == ["00:30", "01:30"]


@pytest.mark.req("CHX-6")
def test_a_whole_day_left_out_fires_once_when_the_next_one_begins() -> None:
    apia = chronex.parse("TZ=Pacific/Apia 0 9 30 12 *")  # 30 December 2011 did not exist
    assert apia.next_after(utc(2011, 12, 29)) == utc(2011, 12, 30, 10)
    assert apia.next_after(utc(2011, 12, 30, 10)) == utc(2012, 12, 29, 19)
    hourly = list(
        chronex.parse("TZ=Pacific/Apia 0 * * * *").between(utc(2011, 12, 30, 8), utc(2011, 12, 30, 12))
    )
    assert hourly == [utc(2011, 12, 30, hour) for hour in (9, 10, 11, 12)]


@pytest.mark.req("CHX-6")
def test_half_hour_jumps_and_offsets_with_seconds() -> None:
    howe = utc(2026, 10, 3, 15, 30)  # Lord Howe: 02:00 becomes 02:30
    assert around("15 2 * * *", howe, "Australia/Lord_Howe") == ["15:30"]
    monrovia = chronex.parse("TZ=Africa/Monrovia 0 0 7 1 *")  # 00:00 became 00:44:30 in 1972
    assert monrovia.next_after(utc(1972, 1, 1)) == datetime(1972, 1, 7, 0, 44, 30, tzinfo=UTC)


@pytest.mark.req("CHX-6")
def test_enumeration_inside_a_fold_is_not_cut_into_whole_hours() -> None:
    expression = chronex.parse("TZ=Europe/Berlin */20 2 * * *")
    instants = list(expression.between(AUTUMN - 2 * HOUR, AUTUMN + 2 * HOUR))
    assert [f"{instant:%H:%M}" for instant in instants] == [
        "00:00",
        "00:20",
        "00:40",
        "01:00",
        "01:20",
        "01:40",
    ]


@pytest.mark.req("CHX-6")
@pytest.mark.parametrize("jump", [utc(2006, 4, 2, 3, 31), utc(2006, 10, 29, 2, 31)])
def test_enumeration_notices_a_jump_in_the_middle_of_an_hour(jump: datetime) -> None:
    expression = chronex.parse("TZ=America/St_Johns */7 * * * *")  # jumps at one minute past midnight
    enumerated = list(expression.between(jump - 2 * HOUR, jump + 2 * HOUR))
    stepped, instant = [], expression.next_after(jump - 2 * HOUR)
    while instant is not None and instant <= jump + 2 * HOUR:
        stepped.append(instant)
        instant = expression.next_after(instant)
    assert enumerated == stepped
    assert len(enumerated) in {35, 36, 37}
    if jump.month == 4:
        assert enumerated[enumerated.index(jump) - 1 : enumerated.index(jump) + 2] == [
            utc(2006, 4, 2, 3, 30),
            jump,
            utc(2006, 4, 2, 3, 37),
        ]


@pytest.mark.req("CHX-6")
def test_a_firing_moved_out_of_the_gap_does_not_drag_its_hour_along() -> None:
    expression = chronex.parse("TZ=Europe/Berlin 10,50 2 * * *")
    assert list(expression.between(SPRING - HOUR, SPRING + 3 * HOUR)) == [SPRING]


@pytest.mark.req("PSX-5")
def test_posix_leaves_gap_minutes_out_and_fires_once_in_the_fold() -> None:
    cron = posix.parse("30 2 * * *")
    assert cron.next_after(utc(2026, 3, 28, 12), "Europe/Berlin") == utc(2026, 3, 30, 0, 30)
    assert not cron.matches(SPRING, "Europe/Berlin")
    star = posix.parse("* * * * *")
    assert star.next_after(utc(2026, 10, 25, 0, 59), "Europe/Berlin") == utc(2026, 10, 25, 2)
    assert star.matches(utc(2026, 10, 25, 0, 30), "Europe/Berlin")
    assert not star.matches(utc(2026, 10, 25, 1, 30), "Europe/Berlin")
    assert star.previous_at(utc(2026, 10, 25, 1, 30), "Europe/Berlin") == utc(2026, 10, 25, 0, 59)
    assert cron.previous_at(utc(2026, 3, 29, 12), "Europe/Berlin") == utc(2026, 3, 28, 1, 30)


@pytest.mark.req("PSX-5")
def test_a_pattern_that_only_names_gap_minutes_finds_nothing_in_ten_years() -> None:
    zone, table = find_zone("Europe/Berlin"), chronex.parse("30 2 * 3 0L")
    assert list(Recurrence(_table(table, 10), zone, POSIX).between(utc(2026, 1, 1), utc(2040, 1, 1))) == []
    assert Recurrence(_table(table, 10), zone, CHRONEX_FIXED).next_after(utc(2026, 1, 1)) == SPRING
    # Moscow jumped on that Sunday every year from 1993 to 2011, and has not jumped since.
    moscow = find_zone("Europe/Moscow")
    assert Recurrence(_table(table, 10), moscow, POSIX).next_after(utc(1993, 1, 1)) is None
    assert Recurrence(_table(table, 40), moscow, POSIX).next_after(utc(1993, 1, 1)) == utc(
        2012, 3, 24, 22, 30
    )


def _table(expression: chronex.Expression, years: int) -> Timetable:
    table: Timetable = expression.recurrence.table  # type: ignore[attr-defined]  # a cron expression
    fields = table.seconds, table.minutes, table.hours, table.month_days, table.months, table.week_days
    return Timetable(Pattern(*fields), years=years)


class TwoOffsets(tzinfo):
    """A zone with a single jump, wherever a test wants it."""

    def __init__(self, jump: datetime, before: timedelta, after: timedelta) -> None:
        self.jump, self.before, self.after = jump.replace(tzinfo=None), before, after

    def fromutc(self, dt: datetime) -> datetime:
        naive = dt.replace(tzinfo=None)
        shift = self.before if naive < self.jump else self.after
        again = naive >= self.jump and naive + self.after < self.jump + self.before
        return (naive + shift).replace(tzinfo=self, fold=int(again))

    def utcoffset(self, dt: datetime | None) -> timedelta:
        assert dt is not None
        wall = dt.replace(tzinfo=None, fold=0)
        is_later = wall >= self.jump + (self.after if dt.fold else self.before)
        return self.after if is_later else self.before

    def dst(self, _dt: datetime | None) -> timedelta:
        return timedelta()

    def tzname(self, _dt: datetime | None) -> str:
        return "two offsets"


@pytest.mark.req("CHX-6")
@prop
@given(
    patterns(),
    st.integers(-200, 200).map(lambda minutes: utc(2026, 1, 1) + timedelta(minutes=minutes)),
    st.integers(-10, 10),
    st.integers(-11, 11).filter(bool),
    st.integers(-300, 300),
)
def test_a_jump_at_the_turn_of_the_year_is_like_any_other(
    pattern: oracle.Pattern, jump: datetime, before: int, change: int, minutes: int
) -> None:
    zone = TwoOffsets(jump, before * HOUR, (before + change) * HOUR)
    start, end = jump - 13 * HOUR, jump + 13 * HOUR
    expression = chronex.parse(pattern.text, timezone=zone)
    expected = oracle.fires(pattern, zone, start, end)
    assert list(expression.between(start, end)) == expected
    instant = jump + timedelta(minutes=minutes)
    later = [fire for fire in expected if fire > instant]
    if later:
        assert expression.next_after(instant) == later[0]


@pytest.mark.req("CHX-6")
def test_the_rules_are_data() -> None:
    assert (Gap.FIRE_AFTER, Fold.FIRST) == CHRONEX_FIXED
    assert (Gap.FIRE_AFTER, Fold.BOTH) == CHRONEX_INTERVAL
    assert (Gap.SKIP, Fold.FIRST) == POSIX


@pytest.mark.req("CHX-7")
def test_leap_days_across_a_year_that_has_none() -> None:
    leap = chronex.parse("0 0 29 2 *")
    assert leap.next_after(utc(2096, 3, 1)) == utc(2104, 2, 29)
    assert leap.next_after(utc(2096, 2, 28)) == utc(2096, 2, 29)


@pytest.mark.req("CHX-7")
def test_forty_years_are_enough_and_not_a_day_more_is_searched() -> None:
    longest = 0
    for weekday in range(7):  # a fifth weekday in February is a leap day on that weekday
        expression = chronex.parse(f"0 0 * 2 {weekday}#5")
        years = [y for y in range(1872, 2200) if isleap(y) and utc(y, 2, 29).isoweekday() % 7 == weekday]
        for year, following in pairwise(years):
            assert expression.next_after(utc(year, 2, 29)) == utc(following, 2, 29)
            longest = max(longest, following - year)
    assert longest == 40
    for text in ("0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 L-30 2,4 *"):
        for zone in ("UTC", "Europe/Berlin"):
            assert chronex.parse(text, timezone=zone).next_after(utc(2026, 1, 1)) is None


@pytest.mark.req("CHX-7")
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_the_ends_of_the_calendar_do_not_raise(zone: str) -> None:
    for text in ("* * * * *", "0 0 1 1 *", "30 2 * * *", "0 0 29 2 *", "* * * * * *"):
        expression = chronex.parse(text, timezone=zone)
        earliest = expression.next_after(datetime.min.replace(tzinfo=UTC))
        assert earliest is not None
        assert earliest.year < 10
        last = expression.next_after(datetime.max.replace(tzinfo=UTC))
        assert last is None
        assert (expression.next_after(LATEST) or LATEST) >= LATEST
        assert (expression.next_after(EARLIEST) or EARLIEST) > EARLIEST


@pytest.mark.req("PSX-4")
def test_the_end_of_the_calendar_is_a_calculation_error_for_posix() -> None:
    cron = posix.parse("0 0 1 1 *")
    with pytest.raises(CronCalculationError) as caught:
        cron.next_after(datetime.max.replace(tzinfo=UTC), "Europe/Berlin")
    assert caught.value.expression == "0 0 1 1 *"
    assert str(caught.value) == "Failed to calculate next occurrence: no occurrence within 10 years"
    with pytest.raises(CronCalculationError):
        posix.parse("0 0 29 2 *").previous_at(utc(3, 1, 1), "Europe/Berlin")
