"""The front door: kinds by prefix, kinds of one's own, and bounds on any of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

import pytest

import schedules
from schedules import Schedule, bounded
from schedules.errors import UnknownKindError
from schedules.instants import each
from tests.schedules.oracle import utc

START, END = utc(2026, 1, 1), utc(2026, 1, 3)


@dataclass(frozen=True)
class Tide:
    """A ticker a user might bring along."""

    period: timedelta

    def next_after(self, instant: datetime, /) -> datetime | None:
        return instant + self.period

    def between(self, start: datetime, end: datetime, /) -> Iterator[datetime]:
        return each(self.next_after, start, end)

    def __str__(self) -> str:
        return "with the tide"


def tide(text: str, *, reference: datetime | None, timezone: str | tzinfo | None, trigger_id: str) -> Tide:
    assert (reference, timezone, trigger_id) == (START, "Asia/Seoul", "t")
    return Tide(timedelta(minutes=int(text)))


@pytest.fixture
def with_tides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registration that the next test does not see."""
    from schedules import registry  # noqa: PLC0415

    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    schedules.register("tide", tide)


@pytest.mark.req("ISO-3")
@pytest.mark.usefixtures("with_tides")
def test_a_registered_kind_is_parsed_by_its_prefix() -> None:
    found = schedules.parse("tide: 745", reference=START, timezone="Asia/Seoul", trigger_id="t")
    assert isinstance(found, Schedule)
    assert list(found.between(START, END)) == [START + timedelta(minutes=745 * k) for k in (1, 2, 3)]
    assert "tide" in schedules.kinds()
    assert schedules.describe(found) == "with the tide"
    assert schedules.lint(found) == ()
    schedules.register("tide", tide)  # the same again is no conflict
    with pytest.raises(UnknownKindError):
        schedules.register("tide", schedules.parse)  # another one is


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
    assert schedules.kinds() == ("chronex", "delay", "iso8601", "kron", "once", "posix")


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
    inside = bounded(inner, start=utc(2026, 1, 1, 14), end=utc(2026, 1, 3, 5))
    expected = [utc(2026, 1, 2, 5), utc(2026, 1, 3, 5)]
    assert list(inside.between(utc(2025, 1, 1), utc(2027, 1, 1))) == expected
    assert inside.next_after(utc(2025, 1, 1)) == expected[0]
    assert inside.next_after(expected[0]) == expected[1]
    assert inside.next_after(expected[1]) is None
    exact = bounded(inner, start=utc(2026, 1, 2, 5))
    assert exact.next_after(utc(2025, 1, 1)) == expected[0]
    assert bounded(inner).next_after(expected[0]) == expected[1]
    assert list(bounded(inner).between(expected[0], expected[1])) == [expected[1]]


@pytest.mark.req("ISO-4")
def test_a_bounded_schedule_knows_when_it_is_active() -> None:
    daily = schedules.parse("@daily")
    inside = bounded(daily, start=START, end=END)
    assert [
        inside.is_active(at) for at in (START - timedelta(seconds=1), START, END, END + timedelta(seconds=1))
    ] == [
        False,
        True,
        True,
        False,
    ]
    assert bounded(daily).is_active(START)
    assert (
        bounded(schedules.parse("once:2026-01-01T00:00:00Z"), end=utc(2025, 1, 1)).next_after(utc(2020, 1, 1))
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
def test_schedules_are_values_that_travel_between_processes(text: str) -> None:
    schedule = schedules.parse(text, reference=START, trigger_id="t")
    again = pickle.loads(pickle.dumps(schedule))  # noqa: S301 -- our own bytes
    assert again == schedule
    assert again.next_after(START) == schedule.next_after(START)
