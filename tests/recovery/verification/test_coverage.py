"""Every missing, doubled or additional row is found, and nothing else."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.recovery.verification.coverage import Difference, Kind, LedgerRow, compare

pytestmark = pytest.mark.req("OCC-5")

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def at(number: int) -> datetime:
    return START + timedelta(minutes=number)


def row(
    first: int, last: int | None = None, count: int | None = None, *, scheduled: bool = True
) -> LedgerRow:
    last = first if last is None else last
    return LedgerRow(uuid4(), at(first), at(last), last - first + 1 if count is None else count, 1, scheduled)


def kinds(owed: list[int], *rows: LedgerRow) -> list[tuple[str, int]]:
    return [(item.kind, item.count) for item in compare(map(at, owed), rows)]


def test_rows_and_ranges_that_cover_everything_give_no_difference() -> None:
    assert kinds([1, 2, 3, 4, 5], row(1), row(2, 4), row(5)) == []


def test_adjacent_instants_without_a_row_are_one_difference() -> None:
    differences = list(compare(map(at, range(1, 8)), [row(3), row(6)]))
    spans = [(item.kind, item.first, item.last, item.count) for item in differences]
    assert spans == [
        (Kind.MISSING, at(1), at(2), 2),
        (Kind.MISSING, at(4), at(5), 2),
        (Kind.MISSING, at(7), at(7), 1),
    ]


def test_a_second_row_of_an_instant_is_doubled_also_inside_a_range() -> None:
    assert kinds([1, 2, 3], row(1, 3), row(2)) == [("doubled", 1)]
    assert kinds([1], row(1), row(1)) == [("doubled", 1)]


def test_a_range_with_a_wrong_count_is_reported() -> None:
    assert kinds([1, 2, 3], row(1, 3, count=4)) == [("miscounted", 3)]
    assert kinds([1, 2, 3], row(1, 3, count=0)) == [], "cut off by the comparison: any number"


def test_a_row_that_is_not_owed_is_reported_unless_it_is_explained() -> None:
    extra = row(9)
    assert list(compare([], [extra])) == [Difference(Kind.UNOWED, at(9), at(9), 1, extra.id)]
    assert list(compare([], [extra], explained=lambda _row: True)) == []


def test_a_manual_run_is_neither_unowed_nor_doubled_but_may_cover_an_instant() -> None:
    assert kinds([1, 3], row(1), row(2, scheduled=False), row(3, scheduled=False)) == []


@given(st.sets(st.integers(0, 40)), st.data())
def test_one_row_less_is_one_instant_missing_and_one_more_is_one_doubled(
    owed: set[int], data: st.DataObject
) -> None:
    instants = sorted(owed)
    rows = [row(number) for number in instants]
    assert kinds(instants, *rows) == []
    if not instants:
        return
    victim = data.draw(st.integers(0, len(instants) - 1))
    assert kinds(instants, *rows[:victim], *rows[victim + 1 :]) == [("missing", 1)]
    assert kinds(instants, *rows[: victim + 1], row(instants[victim]), *rows[victim + 1 :]) == [
        ("doubled", 1)
    ]
