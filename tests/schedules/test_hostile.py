"""Hostile input: every parser raises its documented error, and does so quickly."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from itertools import islice
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

import dateutil.tz  # type: ignore[import-untyped]  # its stubs are not installed
import pytest
import pytz  # type: ignore[import-untyped]
from hypothesis import example, given
from hypothesis import strategies as st

from punctual import schedules
from punctual.schedules import chronex, delay, iso8601, krontab, once, posix
from punctual.schedules.chronex import Expression, TriggerDefinition
from punctual.schedules.durations import format_duration, parse_duration
from punctual.schedules.errors import (
    ChronexError,
    DecisionError,
    DelayError,
    InvalidCronExpressionError,
    Iso8601Error,
    KrontabError,
    ScheduleError,
    TriggerDefinitionError,
    UnknownZoneError,
)
from punctual.schedules.kron import Constraints, DecisionRequest, decide
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
    began = process_time()
    with pytest.raises(ScheduleError) as caught:
        schedules.parse(prefix + text)
    # Three orders of magnitude above the usual cost: only a loop or a blow-up can reach it.
    assert process_time() - began < 0.25
    assert len(str(caught.value)) < 2000


@pytest.mark.req("CHX-14")
def test_the_longest_texts_that_are_still_read_cost_milliseconds() -> None:
    longest = MAX_LENGTH
    for unit in ("99,", "*/0,", "1-99,", "x,"):
        text = (unit * longest)[: longest - 8] + " * * * *"
        began = process_time()
        assert not chronex.validate(text).is_valid
        assert process_time() - began < 0.25
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
    assert schedules.parse(str(answer)) == answer if isinstance(answer, krontab.Krontab) else str(answer)


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


class Speechless(tzinfo):
    """A zone that knows nothing, and cannot even be printed."""

    def utcoffset(self, moment: datetime | None, /) -> timedelta:
        raise NotImplementedError

    def dst(self, moment: datetime | None, /) -> timedelta:
        raise NotImplementedError

    def tzname(self, moment: datetime | None, /) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        raise RuntimeError


TEXTS = [
    "*/5 9 * * MON",
    "TZ=Pacific/Apia * * * * *",
    "0 0 * * * {from:2026-01-01, until:9997-12-31}",
    "@every 5m",
    "@every 1s-3s",
    "@once +1h",
    "@once 2026-01-01T09:00:00",
    "posix:0 9 * * 1",
    "iso8601:R5/2026-01-31T00:00:00Z/P1M",
    "iso8601:R/9000-01-01T00:00:00/P999999Y",
    "once:2027-01-01T00:00:00",
    "kron:0 9 * * * @win(around,2h) @only(dow=7)",
    "delay:5m",
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=9) | st.dates()
ODD_OBJECTS = SCALARS | st.just([]) | st.just({}) | st.builds(object) | st.times(timezones=st.just(UTC))
ODD_ZONES = (
    st.sampled_from(
        [
            "UTC",
            "Europe/Berlin",
            "Asia",
            "",
            "\ud800",
            Speechless(),
            pytz.timezone("Europe/Berlin"),
            pytz.FixedOffset(90),
            dateutil.tz.gettz("Europe/Berlin"),
            dateutil.tz.tzutc(),
            timezone(timedelta(hours=23, minutes=59, seconds=59)),
        ]
    )
    | ODD_OBJECTS
)
EDGES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(2, 1, 1, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
]
ODD_INSTANTS = (
    st.builds(
        lambda edge, zone: edge.replace(tzinfo=zone),
        st.sampled_from(EDGES) | st.datetimes(),
        st.sampled_from([None, UTC, timezone(timedelta(hours=14)), ZoneInfo("Asia/Tokyo"), Speechless()]),
    )
    | ODD_OBJECTS
)


@pytest.mark.req("CHX-14")
@pytest.mark.req("ISO-3")
@prop
@given(st.sampled_from(TEXTS) | ODD_OBJECTS, ODD_ZONES, ODD_INSTANTS, ODD_INSTANTS)
@example("@daily", "UTC", START, time(tzinfo=UTC))
def test_odd_types_years_and_zones_raise_schedule_errors_only(
    text: Any, zone: Any, reference: Any, instant: Any
) -> None:
    with suppress(ScheduleError):
        schedule = schedules.parse(text, reference=reference, timezone=zone)
        assert schedules.describe(schedule)
        with suppress(ScheduleError):
            schedule.next_after(instant)
        list(islice(schedule.between(instant, reference), 3))
        schedules.explain(text, after=instant, timezone=zone, count=2)


@pytest.mark.req("CHX-14")
@prop
@given(ODD_OBJECTS, ODD_ZONES)
def test_every_parser_refuses_what_is_not_a_text_with_its_own_error(text: Any, zone: Any) -> None:
    for parser, expected in (
        (chronex.parse, ChronexError),
        (posix.parse_zoned, InvalidCronExpressionError),
        (iso8601.parse, Iso8601Error),
        (once.parse, (Iso8601Error, UnknownZoneError)),
        (delay.parse, DelayError),
        (krontab.parse, KrontabError),
    ):
        with pytest.raises(expected):
            parser(text, timezone=zone)
    with pytest.raises(KrontabError):
        krontab.parse_spread(text)


@pytest.mark.req("KRN-8")
@prop
@given(st.sampled_from([item.name for item in fields(DecisionRequest)]), ODD_OBJECTS)
def test_an_odd_decision_request_is_refused_or_answered(field: str, value: Any) -> None:
    with suppress(ScheduleError):
        assert decide(replace(DecisionRequest("job", START), **{field: value})).seed_hash


@pytest.mark.req("KRN-2")
@pytest.mark.req("CHX-16")
def test_lone_surrogates_are_refused_wherever_a_text_is_kept() -> None:
    for request, kind in (
        (DecisionRequest("\ud800", START), "invalid_identity"),
        (DecisionRequest("job", START, salt="\ud800"), "invalid_seed_strategy"),
    ):
        with pytest.raises(DecisionError) as caught:
            decide(request)
        assert caught.value.kind == kind
    with pytest.raises(DecisionError):
        chronex.parse("@every 1s-2s", reference=START, trigger_id="\ud800").next_after(START)
    with pytest.raises(DecisionError):
        chronex.parse("@daily {stagger:1h}").stagger_for("\ud800")
    with pytest.raises(KrontabError, match="surrogates"):
        krontab.parse('0 0 * * * @seed(stable,salt="\ud800")')
    for document in (
        '{"id": "a", "expression": "@daily", "metadata": {"k": "\\ud800"}}',
        '{"id": "a", "expression": "@daily", "\\ud800": 1}',
    ):
        with pytest.raises(TriggerDefinitionError, match="surrogates"):
            TriggerDefinition.from_json(document)


@pytest.mark.req("CHX-5")
def test_zones_of_pytz_count_by_their_name_and_those_of_dateutil_are_refused() -> None:
    gap = chronex.parse("30 2 * * * {until:2026-10-25}", timezone=pytz.timezone("Europe/Berlin"))
    assert gap.timezone == "Europe/Berlin"
    assert gap.next_after(utc(2026, 3, 28, 12)) == utc(2026, 3, 29, 1)
    for zone in (dateutil.tz.gettz("Europe/Berlin"), dateutil.tz.tzutc(), Speechless()):
        with pytest.raises(UnknownZoneError, match=r"expected an IANA name or a zoneinfo\.ZoneInfo"):
            posix.parse_zoned("0 0 * * *", timezone=zone)
        with pytest.raises(ChronexError) as caught:
            chronex.parse("0 0 * * *", timezone=zone)
        assert caught.value.code == "E011"
    assert chronex.parse("TZ=Asia/Seoul @daily", timezone="Mars/Base").timezone == "Asia/Seoul"


@pytest.mark.req("CHX-14")
@pytest.mark.req("PSX-2")
@pytest.mark.req("ISO-1")
@pytest.mark.req("KRN-10")
@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("chronex:0 25 * * *", "25"),
        ("chronex: 0 0 * * * {max:0}", "0}"),
        ("posix: 0 1,61-70 * * *", "61"),
        ("posix:0 1-61 * * *", "61"),
        ("posix:0 0 31,9-8 * *", "9-8"),
        ("posix:0 0 30 2 *", "30"),
        ("posix:0 0 *", "0 0"),
        ("POSIX:\t@daily", "@"),
        ("iso8601:R0/2026-01-01T00:00:00Z/P1D", "R0"),
        ("iso8601: R/2026-13-01/P1D", "2026-13"),
        ("iso8601:2026-01-01/P0D", "P0D"),
        ("iso8601:2026-01-01/later", "later"),
        ("iso8601: nothing", "nothing"),
        ("once: tomorrow", "tomorrow"),
        ("delay: 1", "1"),
        ("kron:0 25 * * * @win(after,1h)", "25"),
        ("kron:@every 5m", "@every"),
        ("kron:0 0 * * *  @tz(Mars/Base)", "Mars"),
        ("kron:0 0 * * * @tz(UTC) x", "x"),
        ("kron:0 0 * * * @win(after, soon)", "soon"),
        ("kron:0 0 * * * @win(during,1h)", "during"),
        ("kron:0 0 * * * @dist(normal)", "normal"),
        ("kron:0 0 * * * @dist(skewLate, shape=x)", "shape=x"),
        ("kron:0 0 * * * @dist(skewLate,shape=1,other)", "other"),
        ("kron:0 0 * * * @seed(hourly)", "hourly"),
        ("kron:0 0 * * * @seed(daily,pepper=1)", "pepper"),
        ("kron:0 0 * * * @policy(suspend=true,concurrency=maybe)", "concurrency"),
        ("kron:0 0 * * * @policy(color=red)", "color"),
        ("kron:0 0 * * * @only(hours=1) @only(dow=MON;hours=8, 25)", "25"),
        ("kron:0 0 * * * @avoid(dow=MON; colour=red)", "colour"),
        ("kron:0 0 * * * @win(after,1h) @win(after,2h)", "@win(after,2h"),
    ],
)
def test_a_position_points_at_the_mistake_in_the_whole_text(text: str, mark: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        schedules.parse(text)
    assert caught.value.position == text.index(mark)
    assert schedules.explain(text, after=START).errors[0].position == text.index(mark)
