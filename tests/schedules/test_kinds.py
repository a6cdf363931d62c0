"""Kinds chosen by prefix, custom kinds, and bounds on any kind."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

import pytest

from punctual import schedules
from punctual.schedules import Schedule, bound, is_within
from punctual.schedules.errors import UnknownKindError
from punctual.schedules.utc import iterate
from tests.schedules.oracle import utc

START, END = utc(2026, 1, 1), utc(2026, 1, 3)


@dataclass(frozen=True)
class Tide:
    """A custom kind of schedule."""

    period: timedelta

    def next_after(self, instant: datetime, /) -> datetime | None:
        return instant + self.period

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return iterate(self.next_after, start, end)

    def __str__(self) -> str:
        return "with the tide"


def tide(text: str, *, reference: datetime | None, timezone: str | tzinfo | None, trigger_id: str) -> Tide:
    assert (reference, timezone, trigger_id) == (START, "Asia/Seoul", "t")
    return Tide(timedelta(minutes=int(text)))


@pytest.fixture
def with_tides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a custom kind for one test."""
    from punctual.schedules import kinds  # noqa: PLC0415

    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))
    schedules.register("tide", tide)


@pytest.mark.req("ISO-3")
@pytest.mark.usefixtures("with_tides")
def test_a_registered_kind_is_parsed_by_its_prefix() -> None:
    schedule = schedules.parse("tide: 745", reference=START, timezone="Asia/Seoul", trigger_id="t")
    assert isinstance(schedule, Schedule)
    assert list(schedule.between(START, END)) == [START + timedelta(minutes=745 * k) for k in (1, 2, 3)]
    assert "tide" in schedules.kind_names()
    assert schedules.describe(schedule) == "with the tide"
    assert schedules.lint(schedule) == ()
    schedules.register("tide", tide)  # registering the same parser again is allowed
    with pytest.raises(UnknownKindError):
        schedules.register("tide", schedules.parse)  # another parser is refused


@pytest.mark.req("ISO-3")
@pytest.mark.parametrize("name", ["", "Tide", "two words", "9th", "x" * 40])
def test_a_kind_needs_a_lowercase_word(name: str) -> None:
    with pytest.raises(UnknownKindError):
        schedules.register(name, tide)


@pytest.mark.req("ISO-3")
def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(UnknownKindError) as caught:
        schedules.parse("lunar:full")
    assert caught.value.value == "lunar"
    assert str(caught.value).endswith("known are chronex, delay, iso8601, kron, once, posix")
    assert schedules.kind_names() == ("chronex", "delay", "iso8601", "kron", "once", "posix")


@pytest.mark.req("ISO-3")
@pytest.mark.parametrize(
    "text",
    [
        "0 */12 * * *",
        "chronex:0 */12 * * *",
        "POSIX:0 0,12 * * *",
        "iso8601:2020-01-01T00:00:00Z/PT12H",
        "kron:0 */12 * * *",
        "@every 12h",
    ],
)
def test_between_is_open_at_the_start_and_closed_at_the_end_for_every_kind(text: str) -> None:
    schedule = schedules.parse(text, reference=START)
    assert isinstance(schedule, Schedule)
    expected = [START + timedelta(hours=12 * k) for k in (1, 2, 3, 4)]
    assert list(schedule.between(START, END)) == expected
    assert schedule.next_after(START) == expected[0]
    assert list(schedule.between(END, START)) == []


@pytest.mark.req("ISO-4")
@pytest.mark.parametrize(
    "text",
    ["0 5 * * *", "posix:0 5 * * *", "iso8601:2020-01-01T05:00:00Z/P1D", "kron:0 5 * * *", "@every 1d"],
)
def test_bounds_cut_any_kind_without_moving_its_phase(text: str) -> None:
    inner = schedules.parse(text, reference=utc(2020, 1, 1, 5))
    inside = bound(inner, start=utc(2026, 1, 1, 14), end=utc(2026, 1, 3, 5))
    expected = [utc(2026, 1, 2, 5), utc(2026, 1, 3, 5)]
    assert list(inside.between(utc(2025, 1, 1), utc(2027, 1, 1))) == expected
    assert inside.next_after(utc(2025, 1, 1)) == expected[0]
    assert inside.next_after(expected[0]) == expected[1]
    assert inside.next_after(expected[1]) is None
    exact = bound(inner, start=utc(2026, 1, 2, 5))
    assert exact.next_after(utc(2025, 1, 1)) == expected[0]
    assert bound(inner).next_after(expected[0]) == expected[1]
    assert list(bound(inner).between(expected[0], expected[1])) == [expected[1]]


@pytest.mark.req("ISO-4")
def test_a_bounded_schedule_knows_when_it_is_active() -> None:
    daily = schedules.parse("@daily")
    inside = bound(daily, start=START, end=END)
    assert [
        is_within(inside, at) for at in (START - timedelta(seconds=1), START, END, END + timedelta(seconds=1))
    ] == [
        False,
        True,
        True,
        False,
    ]
    assert is_within(bound(daily), START)
    assert (
        bound(schedules.parse("once:2026-01-01T00:00:00Z"), end=utc(2025, 1, 1)).next_after(utc(2020, 1, 1))
        is None
    )


@pytest.mark.req("ISO-3")
@pytest.mark.parametrize(
    "text",
    [
        "TZ=Europe/Berlin 0 9 * * *",
        "@every 1h-2h",
        "@once +5m",
        "posix:0 0 * * *",
        "kron:0 0 * * * @win(after,1h)",
        "iso8601:2026-01-01T00:00:00+09:00/P1D",
        "once:2027-01-01T00:00:00Z",
    ],
)
def test_schedules_survive_pickling(text: str) -> None:
    schedule = schedules.parse(text, reference=START, trigger_id="t")
    again = pickle.loads(pickle.dumps(schedule))  # noqa: S301 -- our own bytes
    assert again == schedule
    assert again.next_after(START) == schedule.next_after(START)
