"""Searching wall times forwards and backwards."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given

from punctual.schedules import chronex
from punctual.schedules.chronex.expression import CronExpression
from punctual.schedules.wall_clock.months import SHAPES
from punctual.schedules.wall_clock.timetable import Timetable, highest_below, lowest
from tests.schedules.oracle import Pattern, utc
from tests.schedules.strategies import instants, patterns, prop


def table_of(text: str) -> Timetable:
    expression = chronex.parse(text)
    assert isinstance(expression, CronExpression)
    return expression.recurrence.table


@pytest.mark.req("CHX-7")
@prop
@given(patterns(with_seconds=True), instants(1970, 2100))
def test_backwards_is_the_inverse_of_forwards(pattern: Pattern, wall: datetime) -> None:
    table = table_of(pattern.text)
    following = table.after(wall)
    before = table.at_or_before(wall)
    if following is not None:
        assert pattern.matches(following)
        assert table.at_or_before(following) == following
        assert table.at_or_before(following - timedelta(seconds=1)) == before
    if before is not None:
        assert before <= wall
        assert pattern.matches(before)
        assert table.after(before - timedelta(seconds=1)) == before
        assert table.after(before) == following


@pytest.mark.req("CHX-7")
def test_backwards_has_the_same_limit() -> None:
    assert table_of("0 0 30 2 *").at_or_before(utc(2026, 1, 1)) is None
    assert table_of("0 0 29 2 *").at_or_before(utc(2104, 2, 28)) == utc(2096, 2, 29)
    assert table_of("0 0 29 2 *").at_or_before(utc(3, 1, 1)) is None


@pytest.mark.req("CHX-3")
def test_every_month_of_the_calendar_has_one_of_28_shapes() -> None:
    assert len(SHAPES) == 4801
    assert set(SHAPES[1:]) <= set(range(28))
    for year, month in ((2024, 2), (2026, 2), (2000, 2), (1900, 2), (2026, 12), (2399, 12)):
        first = utc(year, month, 1)
        following = first.replace(year=year + month // 12, month=month % 12 + 1)
        shape = SHAPES[year % 400 * 12 + month]
        assert (shape // 4, shape % 4 + 28) == (first.isoweekday() % 7, (following - first).days)


@pytest.mark.req("CHX-4")
def test_lowest_bit_and_highest_bit_below() -> None:
    assert (lowest(0b1000), lowest(0b1010)) == (3, 1)
    assert (highest_below(0b1010, 3), highest_below(0b1010, 4), highest_below(0b1010, 1)) == (1, 3, -1)
