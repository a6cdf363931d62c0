"""Whatever the code of a registered kind does, the result is an instant, None or a clear error."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import Any

import pytest

from punctual import schedules
from punctual.schedules import CustomScheduleError, custom, kinds
from tests.schedules.oracle import utc

START = utc(2026, 1, 1)
HOUR = timedelta(hours=1)


class Ticks:
    """A custom schedule made of one function."""

    def __init__(self, step: Callable[[datetime], Any]) -> None:
        self.step = step

    def next_after(self, instant: datetime, /) -> Any:
        return self.step(instant)


@pytest.fixture(autouse=True)
def own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))


class Tides(Ticks):
    """It has no instants, but words of its own."""

    def __init__(self) -> None:
        super().__init__(lambda _at: None)

    def __str__(self) -> str:
        return "with the tide"


def register(kind: str, parser: Callable[..., Any]) -> None:
    schedules.register(kind, parser)


def parse(step: Callable[[datetime], Any]) -> schedules.Schedule:
    register("ticks", lambda _text, **_facts: Ticks(step))
    return schedules.parse("ticks:x")


def hourly_after(block: Callable[[], object]) -> schedules.Schedule:
    def step(at: datetime) -> datetime:
        block()
        return at + HOUR

    return parse(step)


@pytest.mark.req("ISO-3")
def test_a_ticker_with_next_after_alone_is_a_whole_schedule() -> None:
    schedule = parse(lambda at: at + HOUR)
    assert isinstance(schedule, schedules.Schedule)
    assert list(islice(schedule.between(START, utc(2027, 1, 1)), 2)) == [START + HOUR, START + 2 * HOUR]
    assert parse_again("ticks:x {until:2026-01-01T01:30:00Z}") == [START + HOUR]
    assert str(schedule) == schedules.describe(schedule) == "ticks:x"
    assert schedules.explain("ticks:x", after=START, count=1).timezone == "UTC"
    assert schedules.describe(Tides()) == "with the tide"
    register("tides", lambda _text, **_facts: Tides())
    assert schedules.describe(schedules.parse("tides:x")) == "with the tide"
    assert schedules.parse("tides:x").next_after(START) is None


def parse_again(text: str) -> list[datetime]:
    return list(schedules.parse(text).between(START, utc(2026, 1, 2)))


@pytest.mark.req("ISO-3")
def test_braces_of_a_custom_text_are_left_to_its_parser() -> None:
    texts = []

    def read(text: str, **_facts: object) -> Ticks:
        texts.append(text)
        return Ticks(lambda at: at + HOUR)

    register("ticks", read)
    schedules.parse('ticks:x {"a": 1}')
    schedules.parse("ticks:y {from:2026-01-01}")
    assert texts == ['x {"a": 1}', "y"]


@pytest.mark.req("ISO-3")
def test_only_texts_of_registered_kinds_are_custom() -> None:
    register("ticks", lambda _text, **_facts: Tides())
    assert [
        text for text in ("ticks:x", "TICKS:x", "posix:x", "nope:x", "@daily") if kinds.is_custom(text)
    ] == [
        "ticks:x",
        "TICKS:x",
    ]


@pytest.mark.req("ISO-3")
def test_a_parser_may_return_a_schedule_of_this_package() -> None:
    register("noon", lambda _text, **facts: schedules.chronex.parse("0 12 * * *", **facts))
    assert isinstance(schedules.parse("noon:"), schedules.Expression)


@pytest.mark.req("ISO-3")
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda at: at, "returned 2026-01-01T00:00:00Z, expected a later instant or None"),
        (lambda at: at - HOUR, "returned 2025-12-31T23:00:00Z, expected a later instant or None"),
        (lambda _: 1 / 0, "ticks: ZeroDivisionError: division by zero"),
    ],
)
def test_a_schedule_that_breaks_its_contract_is_named(step: Callable[[datetime], Any], reason: str) -> None:
    schedule = parse(step)
    with pytest.raises(CustomScheduleError) as caught:
        schedule.next_after(START)
    assert reason in str(caught.value)
    with pytest.raises(CustomScheduleError):
        list(schedule.between(START, utc(2027, 1, 1)))
    answer = schedules.explain("ticks:x", after=START)
    assert [error.code for error in answer.errors] == ["CustomScheduleError"]


@pytest.mark.req("ISO-3")
def test_a_result_that_is_no_aware_datetime_is_named() -> None:
    results = iter([datetime(2027, 1, 1), "tomorrow"])  # noqa: DTZ001
    schedule = parse(lambda _at: next(results))
    for _ in range(2):
        with pytest.raises(schedules.NaiveInstantError, match="ticks: result of next_after"):
            schedule.next_after(START)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.req("ISO-3")
def test_a_parser_that_fails_is_an_error_of_the_text() -> None:
    def refuse(_text: str, **_facts: object) -> Any:
        raise UnprintableError

    register("ticks", refuse)
    with pytest.raises(CustomScheduleError, match="ticks: UnprintableError: without a message"):
        schedules.parse("ticks:x")
    register("none", lambda _text, **_facts: None)
    with pytest.raises(CustomScheduleError, match="parser returned None, expected an object with next_after"):
        schedules.parse("none:x")
    register("strict", lambda text, **_facts: schedules.delay.parse(text))
    with pytest.raises(schedules.DelayError):
        schedules.parse("strict:x")


def loop_forever() -> None:
    while True:
        pass


@pytest.mark.req("ISO-3")
@pytest.mark.parametrize("block", [lambda: time.sleep(60), loop_forever], ids=["sleep", "loop"])
def test_code_that_blocks_is_interrupted(block: Callable[[], None]) -> None:
    schedule = hourly_after(block)
    assert isinstance(schedule, custom.CustomSchedule)
    schedule.guard.rest = 0.2
    began = time.monotonic()
    with pytest.raises(CustomScheduleError, match="took longer than 5 seconds"):
        schedule.next_after(START)
    assert time.monotonic() - began < 5
    with pytest.raises(CustomScheduleError, match="took longer"):
        schedule.next_after(START)  # it is not asked again


@pytest.mark.req("ISO-3")
def test_the_limit_is_for_all_calls_together() -> None:
    schedule = hourly_after(lambda: time.sleep(0.02))
    assert isinstance(schedule, custom.CustomSchedule)
    schedule.guard.rest = 0.1
    with pytest.raises(CustomScheduleError, match="took longer"):
        list(schedule.between(START, utc(2027, 1, 1)))


@pytest.mark.req("ISO-3")
def test_another_thread_can_ask_too() -> None:
    answers: list[object] = []
    schedule = parse(lambda at: at + HOUR)
    thread = threading.Thread(target=lambda: answers.append(schedule.next_after(START)))
    thread.start()
    thread.join()
    assert answers == [START + HOUR]


@pytest.mark.req("ISO-3")
@pytest.mark.parametrize("seconds", [3.0, 60.0], ids=["shorter", "longer"])
def test_a_timer_of_the_host_goes_on(seconds: float) -> None:
    handler = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    before = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        assert parse(lambda at: at + HOUR).next_after(START) == START + HOUR
        assert seconds - 2 < signal.getitimer(signal.ITIMER_REAL)[0] <= seconds
        assert signal.getsignal(signal.SIGALRM) == signal.SIG_IGN
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
        signal.signal(signal.SIGALRM, handler)


@pytest.mark.req("CHX-14")
def test_errors_and_odd_zones_tell_their_data() -> None:

    invalid = schedules.InvalidCronExpressionError("x", "minute", "must be a number")
    assert invalid.details == {"expression": "x", "field": "minute", "reason": "must be a number"}
    failed = schedules.CronCalculationError("x", "now", "none")
    assert failed.details == {"expression": "x", "currentTime": "now", "cause": "none"}

    class Nowhere(tzinfo):
        def utcoffset(self, _dt: datetime | None, /) -> timedelta:
            raise RuntimeError

        dst = tzname = utcoffset  # type: ignore[assignment]

    with pytest.raises(schedules.NaiveInstantError, match="has no offset"):
        schedules.parse("@daily").next_after(datetime(2026, 1, 1, tzinfo=Nowhere()))
