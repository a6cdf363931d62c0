"""`@every`, `@once`, and the effect of stagger, jitter, window and max."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.schedules import chronex
from punctual.schedules.chronex import ChronexError
from punctual.schedules.chronex.expression import EveryExpression, fnv1a
from punctual.schedules.chronex.random_intervals import INTERVALS_PER_BLOCK
from punctual.schedules.kron.generator import draw_below
from punctual.schedules.utc import MILLISECOND
from tests.schedules.oracle import counted_calls, utc
from tests.schedules.strategies import prop, quick

START = utc(2026, 1, 1)
MINUTE = timedelta(minutes=1)
FAR = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def without_cache(text: str, trigger_id: str) -> EveryExpression:
    """The expression as a new process sees it."""
    expression = chronex.parse(text, reference=START, trigger_id=trigger_id)
    assert isinstance(expression, EveryExpression)
    return replace(expression, _reached={})


@pytest.mark.req("CHX-8")
def test_every_counts_from_the_reference_at_a_fixed_rate() -> None:
    expression = chronex.parse("@every 90m", reference=START)
    assert expression.kind == "every"
    assert expression.next_after(START) == START + 90 * MINUTE
    assert expression.next_after(START - 5 * MINUTE) == START + 90 * MINUTE
    assert expression.next_after(START + 91 * MINUTE) == START + 180 * MINUTE
    assert expression.next_after(START + 180 * MINUTE) == START + 270 * MINUTE
    instants = list(expression.between(START, START + timedelta(hours=6)))
    assert instants == [START + 90 * MINUTE * k for k in (1, 2, 3, 4)]


@pytest.mark.req("CHX-8")
def test_every_without_a_reference_counts_from_the_previous_instant() -> None:
    expression = chronex.parse("@every 30m")
    assert expression.next_after(START) == START + 30 * MINUTE
    assert expression.next_after(START + 7 * MINUTE) == START + 37 * MINUTE


@pytest.mark.req("CHX-8")
def test_a_later_from_becomes_the_anchor_and_an_earlier_one_does_nothing() -> None:
    late = chronex.parse("@every 1h {from:2026-01-02T00:10:00}", reference=START)
    assert late.next_after(START) == utc(2026, 1, 2, 1, 10)
    alone = chronex.parse("@every 1h {from:2026-01-02T00:10:00}")
    assert alone.next_after(START) == utc(2026, 1, 2, 1, 10)
    early = chronex.parse("@every 1h {from:2025-01-01T00:10:00}", reference=START)
    assert early.next_after(START) == utc(2026, 1, 1, 1)


@pytest.mark.req("CHX-8")
def test_every_ends_with_until_or_the_calendar() -> None:
    expression = chronex.parse("@every 1h {until:2026-01-01T02:00:00}", reference=START)
    assert list(expression.between(START, utc(2027, 1, 1))) == [utc(2026, 1, 1, 1), utc(2026, 1, 1, 2)]
    assert chronex.parse("@every 1h", reference=START).next_after(FAR) is None
    assert chronex.parse("@every 3650000d").next_after(utc(2026, 1, 1)) is None
    assert chronex.parse("@every 1h-2h").next_after(utc(9998, 12, 31, 23, 59, 59)) is None


@pytest.mark.req("CHX-9")
@prop
@given(
    st.text(max_size=12),
    st.integers(1, 5_000),
    st.integers(1, 5_000),
    st.integers(0, 10**9).map(lambda s: START + timedelta(milliseconds=s)),
)
def test_random_intervals_stay_in_bounds_and_depend_on_id_and_previous_only(
    trigger_id: str, shortest: int, more: int, previous: datetime
) -> None:
    text = f"@every {shortest}ms-{shortest + more}ms"
    expression = chronex.parse(text, trigger_id=trigger_id)
    following = expression.next_after(previous)
    assert following is not None
    interval = (following - previous) // timedelta(milliseconds=1)
    assert shortest <= interval <= shortest + more
    assert chronex.parse(text).for_trigger(trigger_id).next_after(previous) == following


@pytest.mark.req("CHX-9")
def test_random_intervals_follow_the_documented_formula() -> None:
    expression = chronex.parse("@every 1h-2h", reference=START, trigger_id="my-trigger")
    drawn = draw_below(3_600_001, identity="my-trigger", key="2026-01-01T00:00:00Z", salt="every")
    assert expression.next_after(START) == START + timedelta(hours=1, milliseconds=drawn)


@pytest.mark.req("CHX-9")
def test_both_ends_of_a_random_interval_are_reached() -> None:
    expression = chronex.parse("@every 1ms-3ms", trigger_id="t")
    gaps = {expression.next_after(START + k * MINUTE) - (START + k * MINUTE) for k in range(60)}  # type: ignore[operator]
    assert gaps == {timedelta(milliseconds=n) for n in (1, 2, 3)}


@pytest.mark.req("CHX-9")
@quick
@given(
    st.text(max_size=5),
    st.integers(1, 10**8),
    st.integers(1, 10**8),
    st.integers(0, 10 * 365 * 86_400_000).map(lambda ms: START + timedelta(milliseconds=ms)),
)
def test_any_question_about_random_intervals_takes_a_bounded_number_of_draws(
    trigger_id: str, shortest: int, more: int, instant: datetime
) -> None:
    def fresh() -> EveryExpression:
        return without_cache(text, trigger_id)

    text = f"@every {shortest}ms-{shortest + more}ms"
    with counted_calls(draw_below) as draws:
        following = fresh().next_after(instant)
    assert draws[0] <= 2 * INTERVALS_PER_BLOCK
    assert following is not None
    with counted_calls(draw_below) as draws:
        ahead = list(islice(fresh().between(instant, FAR), 3))
        back = fresh().next_after(instant - timedelta(milliseconds=shortest))
    assert draws[0] <= 4 * INTERVALS_PER_BLOCK + 3
    assert ahead[0] == following
    assert back is not None
    assert following == back or following == fresh().next_after(back)
    gaps = [later - sooner for sooner, later in pairwise(ahead)]
    assert all(shortest * MILLISECOND <= gap <= (shortest + more) * MILLISECOND for gap in gaps)


@pytest.mark.req("CHX-9")
@pytest.mark.parametrize("text", ["1s-2s", "10m-11m", "1h-3600001ms", "1s-1h", "1ms-2ms"])
def test_random_intervals_keep_to_their_range_and_their_mean_at_every_fixed_point(text: str) -> None:
    expression = chronex.parse(f"@every {text}", reference=START, trigger_id="a")
    assert isinstance(expression, EveryExpression)
    mean = (expression.min_interval + expression.max_interval) / 2
    block = INTERVALS_PER_BLOCK * mean
    instants = [START, *expression.between(START, START + 3 * block)]
    gaps = [later - sooner for sooner, later in pairwise(instants)]
    assert expression.min_interval <= min(gaps) <= max(gaps) <= expression.max_interval
    assert {START + number * block for number in range(4)} <= set(instants)
    assert len(set(gaps)) > 1


@pytest.mark.req("CHX-9")
def test_a_new_process_continues_an_old_schedule_with_few_draws() -> None:
    expression = without_cache("@every 1s-2s", "a")
    with counted_calls(draw_below) as draws:
        first = expression.next_after(START + timedelta(days=30))
    assert draws[0] <= 2 * INTERVALS_PER_BLOCK
    assert first is not None
    with counted_calls(draw_below) as draws:
        expression.next_after(first)
    assert draws[0] <= 2


@pytest.mark.req("CHX-9")
def test_random_intervals_do_not_depend_on_the_order_of_calls() -> None:
    end = START + timedelta(days=1)
    forward = list(chronex.parse("@every 5m-20m", reference=START, trigger_id="a").between(START, end))
    expression = chronex.parse("@every 5m-20m", reference=START, trigger_id="a")
    for index in (40, 3, 41, 0, 20):
        assert expression.next_after(forward[index] - timedelta(microseconds=1)) == forward[index]
        assert expression.next_after(forward[index]) == forward[index + 1]
    other = expression.for_trigger("b")
    assert list(other.between(START, end)) != forward
    assert list(other.for_trigger("a").between(START, end)) == forward


@pytest.mark.req("CHX-10")
def test_once_fires_at_its_instant_and_only_before_it() -> None:
    expression = chronex.parse("@once 2026-03-01T09:00:00+09:00")
    assert expression.kind == "once"
    assert expression.once_at == utc(2026, 3, 1)
    assert expression.next_after(START) == utc(2026, 3, 1)
    assert expression.next_after(utc(2026, 3, 1)) is None
    assert expression.next_after(utc(2026, 3, 2)) is None
    assert list(expression.between(START, utc(2027, 1, 1))) == [utc(2026, 3, 1)]


@pytest.mark.req("CHX-10")
def test_relative_once_is_resolved_at_parse_time_and_prints_as_absolute() -> None:
    expression = chronex.parse("@once +1h30m", reference=START)
    assert expression.once_at == utc(2026, 1, 1, 1, 30)
    assert str(expression) == "@once 2026-01-01T01:30:00Z"
    assert chronex.parse(str(expression)) == expression
    local = datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    assert chronex.parse("@once +1h30m", reference=local) == expression
    berlin = chronex.parse("TZ=Europe/Berlin @once +1h30m", reference=START)
    assert str(berlin) == "TZ=Europe/Berlin @once 2026-01-01T02:30:00+01:00"


@pytest.mark.req("CHX-10")
def test_relative_once_counts_from_the_pass_of_a_repeated_hour_that_was_meant() -> None:
    zone = ZoneInfo("America/New_York")
    passes = [datetime(2026, 11, 1, 1, 30, tzinfo=zone, fold=fold) for fold in (0, 1)]
    instants = [chronex.parse("@once +1h", reference=moment).once_at for moment in passes]
    assert instants == [utc(2026, 11, 1, 6, 30), utc(2026, 11, 1, 7, 30)]


@pytest.mark.req("CHX-10")
@pytest.mark.req("CHX-15")
def test_relative_once_is_rounded_up_to_the_second_that_it_prints() -> None:
    reference = START + timedelta(milliseconds=1)
    expression = chronex.parse("@once +20m", reference=reference)
    assert expression.once_at == START + timedelta(minutes=20, seconds=1)
    assert chronex.parse(str(expression)).once_at == expression.once_at
    soon = chronex.parse("@once +1ms", reference=reference)
    assert soon.next_after(reference) == START + timedelta(seconds=1)
    with pytest.raises(ChronexError):
        chronex.parse("@once +1ms", reference=utc(9998, 12, 31, 23, 59, 59))


@pytest.mark.req("CHX-15")
def test_once_drops_the_fraction_of_a_second_and_says_so() -> None:
    expression = chronex.parse("@once 2026-03-01T00:00:00.5Z")
    assert expression.once_at == chronex.parse(str(expression)).once_at == utc(2026, 3, 1)
    (warning,) = chronex.validate("@once 2026-03-01T00:00:00.5Z {tag:a}").warnings
    assert (warning.code, warning.field, warning.position) == ("W002", "once", 6)
    assert not chronex.validate("@once 2026-03-01T00:00:00.000Z").warnings


@pytest.mark.req("CHX-10")
def test_once_outside_its_own_bounds_never_fires() -> None:
    assert chronex.parse("@once 2026-03-01T00:00:00Z {from:2026-03-02}").next_after(START) is None
    assert chronex.parse("@once 2026-03-01T00:00:00Z {until:2026-02-28}").next_after(START) is None
    assert chronex.parse("@once 2026-03-01T00:00:00Z {from:2026-03-01}").next_after(START) == utc(2026, 3, 1)


@pytest.mark.req("CHX-10")
@pytest.mark.parametrize(
    "value",
    [
        "2026-03-01",
        "2026-02-30T00:00:00Z",
        "2026-03-01T24:00:00Z",
        "2026-03-01T00:00:60Z",
        "2026-3-1T00:00:00Z",
        "2026-03-01T00:00:00+24:00",
        "2026-03-01T00:00:00+09:60",
        "0001-01-01T00:00:00Z",
        "9999-01-01T00:00:00Z",
        "2026-03-01t00:00:00z",
        "2026-03-01T00:00:00.1234567Z",
        "",
    ],
)
def test_once_takes_full_real_datetimes_only(value: str) -> None:
    assert [item.code for item in chronex.validate(f"@once {value}").errors] == ["E012"]


@pytest.mark.req("CHX-10")
def test_once_beyond_the_calendar_is_an_error() -> None:
    with pytest.raises(ChronexError) as caught:
        chronex.parse("@once +3650000d", reference=START)
    assert caught.value.code == "E012"


@pytest.mark.req("CHX-11")
def test_stagger_is_fnv1a_of_the_trigger_id() -> None:
    expression = chronex.parse("0 * * * * {stagger:30s}")
    assert expression.stagger_for("my-trigger") == timedelta(milliseconds=4970)
    assert fnv1a("") == 0x811C9DC5
    assert fnv1a("a") == 0xE40C292C
    assert fnv1a("foobar") == 0xBF9CF968
    assert chronex.parse("0 * * * *").stagger_for("my-trigger") == timedelta()


@pytest.mark.req("CHX-11")
@prop
@given(st.text(max_size=20), st.integers(1, 100_000), st.integers(0, 10**9))
def test_jitter_is_whole_milliseconds_below_its_bound_and_reproducible(
    name: str, bound: int, second: int
) -> None:
    expression = chronex.parse(f"0 * * * * {{jitter:{bound}ms}}")
    nominal = START + timedelta(seconds=second)
    jitter = expression.jitter_for(name, nominal)
    assert timedelta() <= jitter < timedelta(milliseconds=bound)
    assert jitter.microseconds % 1000 == 0
    elsewhere = nominal.astimezone(timezone(timedelta(hours=-7)))
    assert expression.jitter_for(name, elsewhere) == jitter
    drawn = draw_below(bound, identity=name, key=f"{nominal:%Y-%m-%dT%H:%M:%SZ}", salt="jitter")
    assert jitter == timedelta(milliseconds=drawn)


@pytest.mark.req("CHX-11")
def test_an_occurrence_starts_at_nominal_plus_stagger_plus_jitter() -> None:
    expression = chronex.parse("0 * * * * {stagger:30s, jitter:10s}")
    plan = expression.plan("my-trigger", START)
    jitter = expression.jitter_for("my-trigger", START)
    assert jitter > timedelta()
    assert plan.run_at == START + timedelta(milliseconds=4970) + jitter
    assert not plan.is_skipped
    assert chronex.parse("0 * * * *").plan("my-trigger", START).run_at == START
    assert chronex.parse("0 * * * *").jitter_for("my-trigger", START) == timedelta()


@pytest.mark.req("CHX-12")
def test_an_occurrence_is_skipped_only_when_its_delay_exceeds_the_window() -> None:
    assert chronex.parse("0 * * * * {stagger:30s, window:4969ms}").plan("my-trigger", START).is_skipped
    assert not chronex.parse("0 * * * * {stagger:30s, window:4970ms}").plan("my-trigger", START).is_skipped


@pytest.mark.req("CHX-12")
def test_a_start_is_missed_only_later_than_nominal_plus_window() -> None:
    expression = chronex.parse("0 * * * * {window:15m}")
    assert not expression.is_missed(START, START + 15 * MINUTE)
    assert expression.is_missed(START, START + 15 * MINUTE + timedelta(microseconds=1))
    assert not chronex.parse("0 * * * *").is_missed(START, FAR)


@pytest.mark.req("CHX-13")
def test_max_counts_starts() -> None:
    expression = chronex.parse("@every 1h {max:2}", reference=START)
    assert [expression.allows_start(count) for count in (0, 1, 2, 3)] == [True, True, False, False]
    assert chronex.parse("@every 1h").allows_start(10**9)
    assert expression.next_after(START + timedelta(days=9)) is not None  # the schedule itself goes on
