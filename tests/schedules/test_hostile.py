"""Hostile input: every parser raises its documented error, and does so quickly."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from punctual import schedules
from punctual.schedules import chronex, iso8601, krontab, posix
from punctual.schedules.chronex import Expression, TriggerDefinition
from punctual.schedules.durations import format_duration, parse_duration
from punctual.schedules.errors import ChronexError, InvalidCronExpressionError, Iso8601Error, ScheduleError
from punctual.schedules.kron import Constraints
from punctual.schedules.text import MAX_LENGTH
from punctual.schedules.utc import LATEST
from tests.schedules.oracle import outcome, utc
from tests.schedules.strategies import prop

START = utc(2026, 1, 1)
BIG = 100_000
NASTY = [
    "9" * BIG,
    "*" * BIG,
    "* " * BIG,
    "*," * BIG,
    "1-" * BIG,
    "*/" * BIG,
    "{" * BIG,
    "}" * BIG,
    "{" * BIG + "}" * BIG,
    "\x00" * BIG,
    "* * * * *\x00",
    "TZ=" + "../" * BIG + " @daily",
    "TZ=" + "a/" * BIG + " @daily",
    "@every " + "1h" * BIG,
    "@every " + "9" * BIG + "d",
    "@once +" + "9" * BIG + "d",
    "@once " + "1" * BIG,
    "* * * * * {" + "jitter:1s," * BIG + "}",
    "* * * * * {tag:" + "a+" * BIG + "a}",
    "@daily {max:" + "9" * 5000 + "}",
    "0 0 L-" + "9" * 4000 + " * *",
    "0 0 " + "9" * 4000 + "W * *",
    "0 0 * * 1#" + "9" * 4000,
    "*/" + "9" * 4000 + " * * * *",
    "R" + "9" * BIG + "/2026-01-01T00:00:00Z/P1D",
    "R/" + "2" * BIG + "/P1D",
    "R/2026-01-01T00:00:00Z/P" + "1" * BIG + "D",
    "/" * BIG,
    "0 0 * * * " + "@only(hours=1) " * BIG,
    "0 0 * * * @only(" + "(" * BIG,
    '0 0 * * * @seed(daily,salt="' + "\\" * BIG,
    "posix:" * BIG,
    "kron:" * BIG,
    ":" * BIG,
    "\ud800 * * * *",
    "٣" * BIG,
    "\u2028* * * * *",
    "\u202e* * * * *",
    "* * * * *\u00a0*",
    "* * * * * {max:\u00a01}",
    "0 0 * * * @only(hours=\u00a01)",
    "0 0 * * * @win(after,1h)\u00a0",
]


@pytest.mark.req("CHX-14")
@pytest.mark.req("PSX-1")
@pytest.mark.req("ISO-1")
@pytest.mark.req("KRN-10")
@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
@pytest.mark.parametrize("prefix", ["", "posix:", "iso8601:", "kron:", "once:"])
def test_hostile_text_raises_the_documented_error_within_milliseconds(prefix: str, text: str) -> None:
    began = time.process_time()
    with pytest.raises(ScheduleError) as caught:
        schedules.parse(prefix + text)
    # Three orders of magnitude above the usual cost: only a loop or a blow-up can reach it.
    assert time.process_time() - began < 0.25
    assert len(str(caught.value)) < 2000


@pytest.mark.req("CHX-14")
def test_the_longest_texts_that_are_still_read_cost_milliseconds() -> None:
    longest = MAX_LENGTH
    for unit in ("99,", "*/0,", "1-99,", "x,"):
        text = (unit * longest)[: longest - 8] + " * * * *"
        began = time.process_time()
        assert not chronex.validate(text).is_valid
        assert time.process_time() - began < 0.25
    text = "* * * * * {" + ("tag:a," * longest)[: longest - 12] + "}"
    assert not chronex.validate(text).is_valid


GRAMMAR = st.text("*/,-0123456789LW#@TZ= {}:+JANMONjitermaxfromuntilgevyonchPRT.Z\t\x00é", max_size=60)


@pytest.mark.req("CHX-14")
@prop
@given(st.text(max_size=80) | GRAMMAR)
@example("@once +9999999999d")
@example("* * * * * {from:9999-12-31}")
@example("* * * * * {until:9997-12-31}")
@example("TZ=Pacific/Apia @once 2011-12-30T12:00:00")
def test_chronex_answers_or_raises_chronex_errors_only(text: str) -> None:
    answer = outcome(lambda given: chronex.parse(given, reference=START), text)
    result = chronex.validate(text)
    if isinstance(answer, ChronexError):
        assert answer.errors == result.errors or answer.code == "E012"
        assert all(item.code and item.message for item in answer.errors)
        return
    assert isinstance(answer, Expression)
    assert result.is_valid
    assert chronex.parse(answer.canonical, reference=START) == answer
    assert (answer.next_after(START) or LATEST) > START


@pytest.mark.req("PSX-1")
@prop
@given(st.text(max_size=40) | st.text("0123456789*,- \t/", max_size=40))
def test_posix_answers_or_raises_its_own_error_only(text: str) -> None:
    answer = outcome(posix.parse, text)
    if isinstance(answer, posix.PosixCron):
        assert answer.next_after(START, "Europe/Berlin") > START
    else:
        assert isinstance(answer, InvalidCronExpressionError)
        assert answer.field in {"minute", "hour", "day", "month", "weekday", "expression"}


@pytest.mark.req("ISO-1")
@prop
@given(st.text(max_size=60) | st.text("R/2026-01T:Z+PYMWDHS.", max_size=60))
def test_iso8601_answers_or_raises_its_own_error_only(text: str) -> None:
    answer = outcome(iso8601.parse, text)
    if isinstance(answer, iso8601.Repeating):
        assert (answer.next_after(START) or LATEST) > START
    else:
        assert isinstance(answer, Iso8601Error)
        assert answer.field in {"interval", "repetitions", "start", "duration"}


@pytest.mark.req("KRN-10")
@prop
@given(
    st.text(max_size=80) | st.text('0 *@tzwindseolyavpc(),=;-:."\\19', max_size=80).map("0 0 * * * ".__add__)
)
def test_krontab_answers_or_raises_schedule_errors_only(text: str) -> None:
    answer = outcome(krontab.parse, text)
    assert krontab.parse(str(answer)) == answer if isinstance(answer, krontab.Krontab) else str(answer)


@pytest.mark.req("KRN-6")
@prop
@given(st.text(max_size=60) | st.text("hoursdwmntbe=;,-.0129:MONFRI", max_size=60))
def test_constraints_compile_or_raise_the_documented_kind(text: str) -> None:
    answer = outcome(lambda given: Constraints.parse(avoid=(given,)), text)
    assert isinstance(answer, Constraints) or getattr(answer, "kind", "") == "invalid_constraint"


@pytest.mark.req("CHX-16")
@prop
@given(st.text(max_size=60) | st.binary(max_size=40))
def test_documents_are_read_or_refused(text: str | bytes) -> None:
    with pytest.raises(ScheduleError):
        TriggerDefinition.from_json(text)


@pytest.mark.req("CHX-15")
@prop
@given(st.integers(0, 10**14))
def test_durations_round_trip(total: int) -> None:
    delta = timedelta(milliseconds=total)
    assert parse_duration(format_duration(delta)) == delta


@pytest.mark.req("CHX-15")
@pytest.mark.parametrize(
    "text", ["", "1", "h", "1x", "1h ", " 1h", "-1h", "1.5h", "1H", "1h-", "٣h", "9" * 16 + "s", "1h" * 101]
)
def test_what_is_not_a_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.req("CHX-15")
def test_durations_add_up_in_any_order_but_not_beyond_the_calendar() -> None:
    assert parse_duration("30m1h30m") == timedelta(hours=2)
    assert format_duration(timedelta()) == "0s"
    assert parse_duration("3652500d") == timedelta(days=3_652_500)
    assert parse_duration("3652500d1ms") is None
