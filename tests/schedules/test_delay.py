"""A rest of fixed length after each run: the one kind that does not follow the calendar."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import schedules
from schedules import DelayError, FixedDelay
from schedules.durations import format_duration
from schedules.instants import LATEST
from tests.schedules.oracle import utc

pytestmark = pytest.mark.req("TSK-7")

END_OF_A_RUN = utc(2026, 1, 5, 12, 0, 7)


def test_the_next_instant_is_one_delay_after_the_end_it_is_asked_about() -> None:
    found = schedules.parse("delay:1h30m")
    assert found == FixedDelay(timedelta(minutes=90))
    assert found.next_after(END_OF_A_RUN) == END_OF_A_RUN + timedelta(minutes=90)
    assert schedules.describe(found) == "1 hour 30 minutes after the previous run has ended"


@given(st.integers(1, 10**6))
def test_its_text_means_the_same_again(seconds: int) -> None:
    delay = timedelta(seconds=seconds)
    assert schedules.parse(str(FixedDelay(delay))) == FixedDelay(delay)
    assert str(FixedDelay(delay)) == f"delay:{format_duration(delay)}"


@pytest.mark.parametrize("text", ["", "5", "5 m", "999ms", "0s", "-5m", "soon", "5m 5m"])
def test_what_is_no_duration_of_at_least_a_second_is_refused(text: str) -> None:
    with pytest.raises(DelayError, match="expected one such as 30s, 5m or 1h30m") as caught:
        schedules.parse(f"delay:{text}")
    assert caught.value.field == "delay"


def test_it_ends_with_the_calendar() -> None:
    found = FixedDelay(timedelta(days=1))
    assert found.next_after(LATEST - timedelta(hours=23)) is None
    assert list(found.between(LATEST - timedelta(days=2), LATEST)) == [LATEST - timedelta(days=1), LATEST]


def test_it_can_be_explained() -> None:
    found = schedules.explain("delay: 5m", after=END_OF_A_RUN, count=2)
    assert (found.is_valid, found.kind, found.canonical) == (True, "delay", "delay:5m")
    assert [fire.instant for fire in found.fires] == [END_OF_A_RUN + timedelta(minutes=k * 5) for k in (1, 2)]
