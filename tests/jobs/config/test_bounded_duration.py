from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.jobs.config.bounded_duration import MAX_DURATION, duration, format_duration

MILLISECOND = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ("30s", timedelta(seconds=30)),
        ("1h30m", timedelta(minutes=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("366d", MAX_DURATION),
        (timedelta(minutes=5), timedelta(minutes=5)),
        (MILLISECOND, MILLISECOND),
    ],
)
def test_texts_and_timedeltas_within_bounds_are_durations(value: object, span: timedelta) -> None:
    assert duration(value) == span


@pytest.mark.parametrize(
    "value", ["", "soon", "5", "-5s", "1.5h", "5 m", "५s", 30, 1.5, None, True, b"5s", []]
)
def test_a_value_that_is_not_a_duration_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 30s, 5m or 1h30m"):
        duration(value)


@pytest.mark.parametrize(
    "value", ["0s", "367d", timedelta(), timedelta(seconds=-1), MAX_DURATION + MILLISECOND, timedelta.max]
)
def test_a_duration_out_of_bounds_is_refused_with_the_bounds(value: object) -> None:
    with pytest.raises(ValueError, match="expected a duration from 1ms to 366d"):
        duration(value)


def test_zero_is_allowed_only_by_the_caller() -> None:
    assert duration("0s", zero=True) == timedelta()
    with pytest.raises(ValueError, match="expected a duration from 0s to 366d"):
        duration(timedelta(seconds=-1), zero=True)


@pytest.mark.parametrize("micros", [1, 500, 999])
def test_less_than_a_millisecond_is_refused_because_it_would_be_stored_as_zero(micros: int) -> None:
    with pytest.raises(ValueError, match="expected a duration from 1ms to 366d"):
        duration(timedelta(microseconds=micros))


@given(st.timedeltas(min_value=MILLISECOND, max_value=MAX_DURATION))
def test_an_accepted_duration_can_be_stored_and_read_again(span: timedelta) -> None:
    stored = format_duration(duration(span))
    assert duration(stored) == span // MILLISECOND * MILLISECOND
