from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.jobs.config.bounded_duration import duration
from punctual.jobs.config.retry import MAX_RETRIES, Retry

pytestmark = pytest.mark.req("EXE-4")

spans = st.timedeltas(min_value=timedelta(), max_value=timedelta(days=366))
draws = st.floats(min_value=0, max_value=1, exclude_max=True)
ordered = st.tuples(spans, spans).map(sorted)  # the cap is at least the interval


@st.composite
def policies(draw: st.DrawFn) -> Retry:
    interval, cap = draw(ordered)
    return Retry(
        draw(st.integers(0, MAX_RETRIES)),
        interval,
        backoff=draw(st.floats(1, 100)),
        max_interval=draw(st.none() | st.just(cap)),
        jitter=draw(st.none() | spans),
    )


def test_each_wait_is_the_interval_times_a_power_of_the_backoff() -> None:
    retry = Retry(3, "30s", backoff=2)
    waits = [retry.delay(number, draw=0) for number in range(3)]
    assert waits == [timedelta(seconds=30), timedelta(minutes=1), timedelta(minutes=2)]


def test_waits_do_not_exceed_the_cap() -> None:
    retry = Retry(9, "30s", backoff=2, max_interval="45s")
    assert [retry.delay(number, draw=0) for number in (0, 1, 5000)] == [
        timedelta(seconds=30),
        timedelta(seconds=45),
        timedelta(seconds=45),
    ]


@pytest.mark.parametrize(("interval", "cap"), [("30s", "1d"), ("2h", "1d"), ("25h", "25h")])
def test_the_default_cap_never_shortens_the_interval(interval: str, cap: str) -> None:
    retry = Retry(9, interval, backoff=100, jitter="0s")
    assert retry.delay(0, draw=0) == duration(interval)
    assert retry.delay(5000, draw=0) == duration(cap)


def test_a_cap_below_the_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="max_interval='1h': expected at least the interval, 2h"):
        Retry(3, "2h", max_interval="1h")


@pytest.mark.req("EXE-4")
def test_runs_that_fail_together_are_spread_over_a_tenth_of_the_interval_by_default() -> None:
    retry = Retry(3, "30s")
    assert [retry.delay(0, draw=draw) for draw in (0, 0.5)] == [
        timedelta(seconds=30),
        timedelta(seconds=31.5),
    ]


def test_the_draw_adds_a_share_of_the_jitter() -> None:
    retry = Retry(1, "10s", jitter="4s")
    assert retry.delay(0, draw=0.5) == timedelta(seconds=12)


def test_without_an_interval_the_wait_is_the_jitter() -> None:
    assert Retry(1, "0s").delay(0, draw=0.9) == timedelta()
    assert Retry(1, "0s", jitter="10s").delay(7, draw=0.5) == timedelta(seconds=5)


@given(policies(), st.integers(0, 10**6), draws)
def test_a_later_retry_waits_at_least_as_long(retry: Retry, number: int, draw: float) -> None:
    assert retry.delay(number, draw=draw) <= retry.delay(number + 1, draw=draw)


@given(policies(), st.integers(0, 10**9), draws)
def test_no_wait_exceeds_cap_plus_jitter_for_any_number_of_retries(
    retry: Retry, number: int, draw: float
) -> None:
    assert isinstance(retry.max_interval, timedelta)
    assert isinstance(retry.jitter, timedelta)
    assert timedelta() <= retry.delay(number, draw=draw) <= retry.max_interval + retry.jitter


@given(policies())
def test_a_stored_policy_reads_back_to_the_millisecond(retry: Retry) -> None:
    stored = retry.to_json()
    assert Retry.load(stored).to_json() == stored


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_retries": -1}, "max_retries=-1: expected 0 to 10000"),
        ({"max_retries": MAX_RETRIES + 1}, "max_retries=10001: expected 0 to 10000"),
        ({"max_retries": "3"}, "max_retries='3': expected a whole number"),
        ({"max_retries": 2.0}, "max_retries=2.0: expected a whole number"),
        ({"max_retries": True}, "max_retries=True: expected a whole number"),
        ({"max_retries": None}, "max_retries=None: expected a whole number"),
        ({"backoff": 0.5}, "backoff=0.5: expected a number from 1 to 100"),
        ({"backoff": 101}, "backoff=101: expected a number from 1 to 100"),
        ({"backoff": float("nan")}, "backoff=nan: expected a number from 1 to 100"),
        ({"backoff": float("inf")}, "backoff=inf: expected a number from 1 to 100"),
        ({"backoff": "2"}, "backoff='2': expected a number from 1 to 100"),
        ({"interval": "soon"}, "interval='soon': expected a duration such as 30s"),
        ({"interval": "-1s"}, "interval='-1s': expected a duration such as 30s"),
        ({"max_interval": "400d"}, "max_interval='400d': expected a duration from 0s to 366d"),
        ({"jitter": 5}, "jitter=5: expected a duration such as 30s"),
    ],
)
def test_a_bad_field_is_refused_with_its_value_and_what_is_allowed(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        Retry(**{"max_retries": 3} | fields)
    assert str(caught.value).startswith(message)


def test_a_stored_policy_with_an_unknown_or_missing_field_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown field 'retries'; expected backoff, interval, jitter"):
        Retry.load({"max_retries": 1, "retries": 1})
    with pytest.raises(ValueError, match="max_retries is missing"):
        Retry.load({"interval": "5s"})
