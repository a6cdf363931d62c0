"""Late instants become ranges: none twice, none missing, and only those that certainly do not run."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.occurrences.planning.catchup_policy import Bounds
from punctual.occurrences.planning.stretches import Stretch, Stretches, collect_stretches

pytestmark = pytest.mark.req("OCC-5")

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def minutes(*numbers: int) -> list[datetime]:
    return [START + number * MINUTE for number in numbers]


def expand(absorbed: Stretches) -> list[datetime]:
    found: list[datetime] = []
    for stretch in absorbed.items:
        found += [stretch.first + number * MINUTE for number in range(stretch.count)]
        assert found[-1] == stretch.last
    return found


@given(
    st.integers(0, 60),
    st.none() | st.integers(0, 30),
    st.none() | st.integers(-5, 70),
    st.sets(st.integers(0, 60)),
    st.integers(1, 80),
)
def test_step_by_step_every_instant_but_the_newest_is_collected_once(
    late: int, newest: int | None, since: int | None, known: set[int], limit: int
) -> None:
    instants = minutes(*range(late))
    within = Bounds(newest, None if since is None else START + since * MINUTE)
    have_rows = set(minutes(*known))
    found: list[datetime] = []
    reached = START - MINUTE
    while True:
        rest = [instant for instant in instants if instant > reached]
        step = collect_stretches(rest, within, known=have_rows, limit=limit)
        found += expand(step)
        if step.reached is None:
            break
        assert 0 < step.instants <= limit
        reached = step.reached

    recent = [instant for instant in instants if within.since is None or instant >= within.since]
    runs = recent if newest is None else recent[max(len(recent) - newest, 0) :]
    assert found == [instant for instant in instants if instant not in runs and instant not in have_rows]
    assert not runs or reached < runs[0]


def test_a_range_stops_before_an_instant_that_has_a_row() -> None:
    (third,) = minutes(3)
    found = collect_stretches(minutes(*range(6)), Bounds(newest=0), known={third}, limit=100)
    first, _, last_before, _, next_, last = minutes(*range(6))
    assert found.items == (Stretch(first, last_before, 3), Stretch(next_, last, 2))
    assert (found.reached, found.instants) == (last, 6)


def test_an_endless_schedule_is_read_only_up_to_the_limit() -> None:
    looked_at: list[int] = []

    def endless() -> Iterator[datetime]:
        for number in count():
            looked_at.append(number)
            yield START + number * MINUTE

    found = collect_stretches(endless(), Bounds(newest=5), limit=1000)
    assert (found.instants, len(looked_at)) == (1000, 1005)


def test_a_policy_that_runs_everything_reads_nothing() -> None:
    assert collect_stretches(islice(minutes(1, 2), 1), Bounds(), limit=10) == Stretches()
