"""The checker: good traces pass, and a minimal bad trace of each property is detected with its witness."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from punctual.polling.registrations import Rule
from tests.polling.properties import PROPERTIES, check
from tests.polling.trace import (
    Event,
    InitEnd,
    InitStart,
    RunEnd,
    RunStart,
    StopEnd,
    StopStart,
    Trace,
    UnexpectedShutdown,
)

pytestmark = pytest.mark.req("POL-8")

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
HOURLY = Rule("0 * * * *", timedelta(minutes=5))
EVERY_MINUTE = Rule("* * * * *", timedelta(minutes=5))


def at(minutes: float) -> datetime:
    """Minutes after midnight, as the model counts."""
    return EPOCH + timedelta(minutes=minutes)


def trace(*events: Event, until: float = 0, zone: str = "UTC") -> Trace:
    end = max([at(until), *(event.at for event in events)])
    return Trace(events, end, zone)


def init(minutes: float, rule: Rule = HOURLY, **more: Rule) -> InitEnd:
    return InitEnd(at(minutes), {"a": rule, **more})


def start(minutes: float, task: str = "a") -> RunStart:
    return RunStart(at(minutes), task)


def good(minutes: float) -> RunEnd:
    return RunEnd(at(minutes), "a", success=True)


def bad(minutes: float) -> RunEnd:
    return RunEnd(at(minutes), "a", success=False)


def stop(minutes: float) -> tuple[StopStart, StopEnd]:
    return StopStart(at(minutes)), StopEnd(at(minutes + 0.5))


def crash(minutes: float) -> UnexpectedShutdown:
    return UnexpectedShutdown(at(minutes))


GOOD: Mapping[str, Trace] = {
    "nothing": trace(until=100),
    "normal operation": trace(
        InitStart(at(0.0)), init(0.1), start(60), good(60.2), start(120), bad(120.1), start(180), until=180
    ),
    "stop and restart": trace(
        InitStart(at(0)), init(0.1), *stop(30), InitStart(at(90)), init(90.1), start(120), until=120
    ),
    "the first minute matches": trace(init(0.3), start(0.4), good(0.5), until=59),
    "one start for many missed": trace(init(0.3), start(0.4), good(0.5), *stop(1), init(200), start(200.1)),
    "retry after its delay": trace(init(59), start(60), bad(60.2), start(65.2), good(66), until=70),
    "retry before the next minute": trace(init(0, EVERY_MINUTE), start(0), bad(0.5), start(1), until=1.5),
    "interrupted and restarted": trace(init(59), start(60), crash(61), init(62), start(62.5), good(63)),
    "interrupted and no longer registered": trace(
        init(59), start(60), crash(61), InitEnd(at(62), {}), until=90
    ),
    "interrupted, then stopped at once": trace(
        init(59), start(60), crash(61), init(62), *stop(62.1), until=90
    ),
    "still running when the next minute comes": trace(
        init(0, EVERY_MINUTE), start(0), good(3.5), start(3.6), until=4
    ),
    "never ends": trace(init(0, EVERY_MINUTE), start(0), until=60),
    "stopped while it ran": trace(
        init(60), start(60.1), StopStart(at(61)), good(90), StopEnd(at(90)), until=99
    ),
    "stopped by its own callback": trace(init(60), start(60.1), *stop(61), good(62)),
    "changed within its minute": trace(
        init(60), start(60.1), good(60.2), init(60.5, EVERY_MINUTE), start(60.6)
    ),
    "removed and registered anew": trace(
        init(60), start(60.1), good(60.2), InitEnd(at(60.3), {}), init(60.5), start(60.6), good(60.7)
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_trace_passes(name: str) -> None:
    assert check(GOOD[name]) == []


BAD: Mapping[int, tuple[Trace, tuple[Event, ...]]] = {
    1: (trace(init(59), start(60), good(61), good(62)), (good(61), good(62))),
    2: (trace(init(0, EVERY_MINUTE), start(0), start(1)), (start(0), start(1))),
    3: (trace(init(1), start(30)), (start(30),)),
    4: (
        trace(init(0), start(0.1), good(0.2), *stop(1), init(200), start(200.1), good(200.2), start(200.3)),
        (init(200), start(200.1), start(200.3)),
    ),
    5: (trace(init(1), *stop(30), start(60)), (stop(30)[1], start(60))),
    6: (trace(init(1), crash(30), start(60)), (crash(30), start(60))),
    9: (trace(init(59), start(60), *stop(61), until=90), (start(60), stop(61)[1])),
    10: (trace(init(59), start(60), crash(61), init(62), until=64), (start(60), crash(61), init(62))),
    11: (trace(init(59), start(60), bad(60), start(60)), (start(60), start(60))),
    12: (trace(init(59), start(60), good(61), start(62)), (start(60), start(62))),
    13: (trace(init(59), until=62), (init(59), start(60))),
    14: (trace(init(59), start(60), crash(61), init(61.1), good(61.2)), (crash(61), good(61.2))),
    15: (trace(init(59), until=60 * 6), (init(59), start(60 * 6))),
    16: (trace(init(59), StopStart(at(59.5)), until=61), (StopStart(at(59.5)),)),
    17: (trace(init(1), crash(2), init(3), until=60 * 6), (crash(2), init(3))),
}


def test_there_is_a_bad_trace_for_every_property() -> None:
    assert BAD.keys() == PROPERTIES.keys() == {*range(1, 7), *range(9, 18)}


@pytest.mark.parametrize("number", BAD)
def test_a_bad_trace_is_detected_with_its_witness(number: int) -> None:
    bad_trace, witness = BAD[number]
    violations = [item for item in check(bad_trace) if item.number == number]
    assert [item.witness for item in violations] == [witness]
    assert str(violations[0]).startswith(f"property {number} ({PROPERTIES[number].title})")


MORE_BAD: Mapping[str, tuple[Trace, int]] = {
    "an end without any start": (trace(init(59), good(60)), 1),
    "a start of what was never registered": (trace(init(59), start(60, "stranger")), 3),
    "a start before any initialize": (trace(start(60)), 3),
    "a start after a stop began": (trace(init(59), StopStart(at(59.5)), start(60)), 3),
    "a retry before its delay": (trace(init(59), start(60), bad(60.2), start(63)), 3),
    "a retry after success": (trace(init(59), start(60), bad(60.2), start(65.2), good(66), start(72)), 3),
    "a retry of a rule that is gone": (
        trace(init(59), start(60), bad(60.2), init(61, Rule("1 1 1 1 *", timedelta())), start(66)),
        3,
    ),
    "a missed minute of a new task": (trace(init(61), start(61.5)), 3),
    "a start in a skipped minute": (
        trace(init(60, Rule("30 2 29 3 *", timedelta())), start(90)),
        3,
    ),
    "a stop that loses a callback and more": (trace(init(59), start(60), *stop(61), start(70)), 9),
    "a start after a crash without initialize": (trace(init(59), start(60), crash(61), start(62)), 6),
    "a minute left out after a long run": (trace(init(0, EVERY_MINUTE), start(0), good(3.5), until=6), 13),
    "a minute left out": (
        trace(init(0, EVERY_MINUTE), start(0), good(0.5), start(1), good(1.2), until=4),
        13,
    ),
    "a start after the stop ended": (trace(init(59), *stop(59.1), start(61)), 16),
}


@pytest.mark.parametrize("name", MORE_BAD)
def test_further_bad_traces_are_detected(name: str) -> None:
    bad_trace, number = MORE_BAD[name]
    assert number in {item.number for item in check(bad_trace)}


def test_a_second_start_in_a_repeated_hour_is_detected() -> None:
    """02:30 in Berlin on 25 October: 00:30 and 01:30 in UTC."""
    day = datetime(2026, 10, 25, tzinfo=UTC)
    rule = Rule("30 2 * * *", timedelta())
    first, second = (RunStart(day + timedelta(minutes=minutes), "a") for minutes in (30, 90))
    end = RunEnd(day + timedelta(minutes=31), "a", success=True)
    events = (InitEnd(day, {"a": rule}), first, end, second)
    violations = check(Trace(events, second.at, "Europe/Berlin"))
    assert (3, (second,)) in [(item.number, item.witness) for item in violations]


def test_events_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="order of time"):
        trace(start(2), start(1))
    with pytest.raises(ValueError, match="order of time"):
        Trace((start(2),), at(1))
