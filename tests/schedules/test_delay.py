"""The `delay:` kind: a fixed pause after the end of each run."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual import schedules
from punctual.schedules import DelayError, FixedDelay
from punctual.schedules.durations import format_duration
from punctual.schedules.utc import LATEST
from tests.schedules.oracle import utc

pytestmark = pytest.mark.req("TSK-7")

END_OF_A_RUN = utc(2026, 1, 5, 12, 0, 7)


def test_the_next_instant_is_one_delay_after_the_end_of_the_run() -> None:
    schedule = schedules.parse("delay:1h30m")
    assert schedule == FixedDelay(timedelta(minutes=90))
    assert schedule.next_after(END_OF_A_RUN) == END_OF_A_RUN + timedelta(minutes=90)
    assert schedules.describe(schedule) == "1 hour 30 minutes after the previous run has ended"


@given(st.integers(1, 10**6))
def test_the_text_of_a_delay_round_trips(seconds: int) -> None:
    delay = timedelta(seconds=seconds)
    assert schedules.parse(str(FixedDelay(delay))) == FixedDelay(delay)
    assert str(FixedDelay(delay)) == f"delay:{format_duration(delay)}"


@pytest.mark.parametrize("text", ["", "5", "5 m", "999ms", "0s", "-5m", "soon", "5m 5m"])
def test_a_delay_must_be_a_duration_of_at_least_a_second(text: str) -> None:
    with pytest.raises(DelayError, match="expected one such as 30s, 5m or 1h30m") as caught:
        schedules.parse(f"delay:{text}")
    assert caught.value.field == "delay"


def test_a_delay_ends_with_the_calendar() -> None:
    schedule = FixedDelay(timedelta(days=1))
    assert schedule.next_after(LATEST - timedelta(hours=23)) is None
    assert list(schedule.between(LATEST - timedelta(days=2), LATEST)) == [LATEST - timedelta(days=1), LATEST]


def test_a_delay_can_be_explained() -> None:
    explanation = schedules.explain("delay: 5m", after=END_OF_A_RUN, count=2)
    assert (explanation.is_valid, explanation.kind, explanation.canonical) == (True, "delay", "delay:5m")
    assert [fire.instant for fire in explanation.fires] == [
        END_OF_A_RUN + timedelta(minutes=k * 5) for k in (1, 2)
    ]
