"""Property tests: against a brute-force oracle, against cronsim, and of the documented invariants."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

from punctual import schedules
from punctual.schedules import chronex, posix
from tests.schedules import oracle
from tests.schedules.oracle import Pattern, utc
from tests.schedules.strategies import (
    THOROUGH,
    ZONES,
    fields,
    instants,
    jumps_in,
    moments,
    patterns,
    prop,
    quick,
)

DAY = timedelta(days=1)


def steps(schedule: schedules.Schedule, start: datetime, end: datetime) -> list[datetime]:
    firings: list[datetime] = []
    instant = schedule.next_after(start)
    while instant is not None and instant <= end:
        firings.append(instant)
        instant = schedule.next_after(instant)
    return firings


@pytest.mark.req("CHX-6")
@pytest.mark.req("CHX-2")
@pytest.mark.req("CHX-3")
@pytest.mark.req("CHX-4")
@prop
@given(patterns(), moments())
def test_every_minute_near_a_jump_fires_as_the_oracle_says(
    pattern: Pattern, moment: tuple[str, datetime]
) -> None:
    zone, instant = moment
    start, end = instant - DAY, instant + DAY
    expression = chronex.parse(pattern.text, timezone=zone)
    assert steps(expression, start, end) == oracle.fires(pattern, ZoneInfo(zone), start, end)


@pytest.mark.req("CHX-1")
@pytest.mark.req("CHX-6")
@quick
@given(patterns(with_seconds=True), moments())
def test_every_second_near_a_jump_fires_as_the_oracle_says(
    pattern: Pattern, moment: tuple[str, datetime]
) -> None:
    zone, instant = moment
    start, end = instant - timedelta(minutes=20), instant + timedelta(minutes=20)
    step = timedelta(seconds=1)
    expected = oracle.fires(pattern, ZoneInfo(zone), start, end, step=step, memory=timedelta(hours=4))
    assert steps(chronex.parse(pattern.text, timezone=zone), start, end) == expected


def _jumps_of_every_zone() -> list[tuple[str, datetime]]:
    """One jump of every zone of the database; in the thorough profile every distinct one."""
    picker = random.Random(1970)  # noqa: S311 -- a fixed choice, not a secret
    chosen: dict[object, tuple[str, datetime]] = {}
    for zone in ZONES:
        years = range(1970, 2100) if THOROUGH else picker.sample(range(1970, 2038), 5)
        jumps = (jump for year in years for jump in jumps_in(zone, year))
        for jump in jumps if THOROUGH else islice(jumps, 1):
            offsets = [
                oracle.offset(ZoneInfo(zone), jump + side) for side in (timedelta(seconds=-1), timedelta())
            ]
            chosen.setdefault((jump, *offsets) if THOROUGH else zone, (zone, jump))
    return list(chosen.values())


@pytest.mark.req("CHX-6")
def test_both_kinds_of_pattern_cross_a_jump_of_every_zone() -> None:
    for zone, jump in _jumps_of_every_zone():
        wall = oracle.wall_at(ZoneInfo(zone), jump - timedelta(minutes=1))
        minutes, hours = (
            frozenset({0, 17, wall.minute}),
            frozenset({(wall.hour + d) % 24 for d in (0, 1, 2)}),
        )
        text = ",".join(map(str, sorted(minutes))), ",".join(map(str, sorted(hours)))
        every = frozenset(range(1, 13))
        fixed = Pattern(
            f"{text[0]} {text[1]} * * *", frozenset({0}), minutes, hours, every, _any_day, is_interval=False
        )
        loose = Pattern(
            f"{text[0]} * * * *",
            frozenset({0}),
            minutes,
            frozenset(range(24)),
            every,
            _any_day,
            is_interval=True,
        )
        start, end = jump - timedelta(hours=3), jump + timedelta(hours=5)
        for pattern in (fixed, loose):
            expected = oracle.fires(pattern, ZoneInfo(zone), start, end, memory=timedelta(hours=4))
            assert steps(chronex.parse(pattern.text, timezone=zone), start, end) == expected, (zone, jump)


def _any_day(_: object) -> bool:
    return True


@pytest.mark.req("PSX-5")
@prop
@given(fields(0, 59), fields(0, 23), moments())
def test_posix_skips_gaps_and_fires_once_in_folds(
    minute: tuple[str, frozenset[int], bool],
    hour: tuple[str, frozenset[int], bool],
    moment: tuple[str, datetime],
) -> None:
    zone, instant = moment
    minutes, hours = (",".join(map(str, sorted(part[1]))) for part in (minute, hour))
    pattern = Pattern(
        "", frozenset({0}), minute[1], hour[1], frozenset(range(1, 13)), _any_day, is_interval=False
    )
    start, end = instant - DAY, instant + DAY
    cron = posix.parse(f"{minutes} {hours} * * *")
    expected = oracle.fires(pattern, ZoneInfo(zone), start, end, skips_gaps=True)
    schedule = schedules.parse(f"posix:{minutes} {hours} * * *", timezone=zone)
    assert steps(schedule, start, end) == expected
    for fire in expected[:50]:
        assert cron.matches(fire + timedelta(seconds=59), zone)
        assert cron.previous_at(fire, zone) == fire
        assert cron.previous_at(fire + timedelta(seconds=31), zone) == fire
    for sooner, later in pairwise(expected[:50]):
        assert cron.previous_at(later - timedelta(microseconds=1), zone) == sooner


@pytest.mark.req("CHX-6")
@prop
@given(patterns(with_seconds=False) | patterns(with_seconds=True), moments())
def test_between_equals_repeated_next_after_and_strictly_increases(
    pattern: Pattern, moment: tuple[str, datetime]
) -> None:
    zone, instant = moment
    expression = chronex.parse(pattern.text, timezone=zone)
    start, end = instant - timedelta(hours=4), instant + timedelta(hours=4)
    firings = list(expression.between(start, end))
    assert firings == steps(expression, start, end)
    assert all(sooner < later for sooner, later in pairwise([start, *firings]))
    assert all(fire.tzinfo is UTC for fire in firings)


@pytest.mark.req("CHX-7")
@prop
@given(patterns(), instants(1970, 2100))
@example(Pattern("0 0 29 2 *", frozenset({0}), frozenset({0}), frozenset({0}), frozenset({2}),
                 lambda day: day.day == 29, is_interval=False), utc(2096, 3, 1))  # fmt: skip
def test_the_first_matching_day_is_found_however_far_away(pattern: Pattern, start: datetime) -> None:
    firing = chronex.parse(pattern.text).next_after(start)
    day = start.date()
    limit = day.replace(year=day.year + 40, day=1)
    while day < limit and not (
        day.month in pattern.months and pattern.day(day) and _later(pattern, day, start)
    ):
        day += DAY
    if firing is None:
        assert day >= limit
    else:
        assert firing.date() == day
        assert pattern.matches(firing)


def _later(pattern: Pattern, day: object, start: datetime) -> bool:
    """Whether the pattern still has a time on that day after the start."""
    if day != start.date():
        return True
    last = max((h, m) for h in (max(pattern.hours),) for m in (max(pattern.minutes),))
    return last > (start.hour, start.minute)


@pytest.mark.req("CHX-1")
@prop
@given(
    st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12)),
    st.sampled_from(["*", "1-5", "0,3", "6", "2#2", "5L"]),
    instants(1971, 2090),
)
def test_cronsim_agrees_where_its_dialect_is_ours(
    parts: tuple[tuple[str, frozenset[int], bool], ...], weekday: str, start: datetime
) -> None:
    # Lists of plain numbers mean the same to both; cronsim knows no reversed ranges.
    texts = ["*" if text == "*" else ",".join(map(str, sorted(values))) for text, values, _ in parts]
    text = " ".join([*texts, weekday])
    expression = chronex.parse(text)
    if expression.next_after(start) is None:
        return
    theirs = CronSim(text, start)
    for instant in expression.between(start, start + timedelta(days=2000)):
        assert instant == next(theirs)
        if instant > start + timedelta(days=2):
            break


@pytest.mark.req("CHX-15")
@prop
@given(patterns(), st.sampled_from(ZONES).map("TZ={} ".format) | st.just(""))
def test_the_canonical_text_means_the_same_and_is_stable(pattern: Pattern, prefix: str) -> None:
    first = chronex.parse(prefix + pattern.text)
    again = chronex.parse(first.canonical)
    assert again == first
    assert again.canonical == first.canonical
    start = utc(2024, 2, 27)
    assert list(again.between(start, start + 3 * DAY)) == list(first.between(start, start + 3 * DAY))
