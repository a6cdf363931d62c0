"""Zones as spans of constant offset, compared with zoneinfo and with the database files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.schedules.errors import UnknownZoneError
from punctual.schedules.utc import LATEST, clamp, shift_instant, utc
from punctual.schedules.wall_clock.zones import Mark, Zone, find_zone, zone_of
from tests.schedules import oracle
from tests.schedules.oracle import outcome
from tests.schedules.strategies import THOROUGH, ZONES, moments, prop


def _files(name: str) -> Iterator[Traversable]:
    """Where zoneinfo looks, in its order."""
    yield from (Path(root, name) for root in TZPATH)
    yield files("tzdata").joinpath("zoneinfo", *name.split("/"))


def file_changes(name: str) -> Iterator[datetime]:
    """Instants at which the offset changes, straight from the compiled database file."""
    data = next(path for path in _files(name) if path.is_file()).read_bytes()
    header = struct.Struct(">4sc15x6l")

    def counts(offset: int) -> tuple[int, ...]:
        return header.unpack_from(data, offset)[2:]

    isut, isstd, leap, times, types, chars = counts(0)
    second = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    *_, times, types, _ = counts(second)
    at = second + 44
    stamps = struct.unpack_from(f">{times}q", data, at)
    kinds = data[at + 8 * times : at + 9 * times]
    offsets = [struct.unpack_from(">lbb", data, at + 9 * times + 6 * kind)[0] for kind in range(types)]
    for (_, before), (stamp, after) in pairwise(zip(stamps, kinds, strict=True)):
        if offsets[before] != offsets[after] and 0 < stamp < 4_102_444_800:  # 1970 to 2100
            yield datetime.fromtimestamp(stamp, UTC)


@pytest.mark.req("CHX-6")
def test_no_jump_of_the_database_is_overlooked() -> None:
    for name in ZONES if THOROUGH else ZONES[::3]:
        zone = Zone(name, ZoneInfo(name))
        missed = [change for change in file_changes(name) if zone.span_at(change).start != change]
        assert missed == [], name


@pytest.mark.req("CHX-6")
@prop
@given(moments())
def test_offsets_and_wall_times_agree_with_zoneinfo(moment: tuple[str, datetime]) -> None:
    name, instant = moment
    zone, info = find_zone(name), ZoneInfo(name)
    assert zone.offset_at(instant) == oracle.offset(info, instant)
    wall = instant + zone.offset_at(instant)
    placed = zone.place(wall)
    assert placed is not None
    assert not placed.in_gap
    assert placed.instant + zone.offset_at(placed.instant) == wall
    assert placed.instant <= instant
    assert zone.last_showing(wall) is not None
    assert zone.last_showing(wall) >= instant  # type: ignore[operator]


@pytest.mark.req("CHX-6")
def test_wall_times_in_a_gap_are_placed_at_its_end() -> None:
    berlin = find_zone("Europe/Berlin")
    placed = berlin.place(oracle.utc(2026, 3, 29, 2, 30))
    assert placed == (oracle.utc(2026, 3, 29, 1), True)
    assert berlin.last_showing(oracle.utc(2026, 3, 29, 2, 30)) == oracle.utc(2026, 3, 29, 1)
    assert berlin.last_showing(oracle.utc(2026, 10, 25, 2, 30)) == oracle.utc(2026, 10, 25, 1, 30)
    assert berlin.place(datetime(9999, 6, 1, tzinfo=UTC)) is None
    assert berlin.last_showing(datetime(9999, 6, 1, tzinfo=UTC)) is None


@pytest.mark.req("CHX-6")
def test_instants_near_a_change_are_marked() -> None:
    berlin = find_zone("Europe/Berlin")
    assert berlin.mark_at(oracle.utc(2026, 3, 29, 1)) is Mark.AFTER_GAP
    assert berlin.mark_at(oracle.utc(2026, 3, 29, 1, 1)) is None
    assert berlin.mark_at(oracle.utc(2026, 10, 25, 0, 30)) is Mark.FIRST_SHOWING
    assert berlin.mark_at(oracle.utc(2026, 10, 25, 1, 30)) is Mark.SECOND_SHOWING
    assert berlin.mark_at(oracle.utc(2026, 1, 1)) is None


@pytest.mark.req("CHX-14")
@given(st.text(max_size=30))
def test_any_name_gives_a_zone_or_the_documented_error(name: str) -> None:
    answer = outcome(find_zone, name)
    if isinstance(answer, Zone):
        assert answer.name == name
    else:
        assert isinstance(answer, UnknownZoneError)
        assert answer.field == "timezone"


@pytest.mark.req("CHX-5")
def test_every_name_of_the_database_is_a_zone() -> None:
    assert [name for name in ZONES if find_zone(name).name != name] == []
    assert len(ZONES) > 400


@pytest.mark.req("CHX-5")
def test_any_tzinfo_is_accepted() -> None:
    assert zone_of(ZoneInfo("Asia/Seoul")).name == "Asia/Seoul"
    east = zone_of(timezone(timedelta(hours=1)))
    assert east.name == "UTC+01:00"
    assert east.offset_at(oracle.utc(2026, 1, 1)) == timedelta(hours=1)
    assert zone_of("UTC").is_utc


@pytest.mark.req("CHX-7")
def test_instants_outside_the_supported_years_are_moved_to_their_edge() -> None:
    west, east = timezone(timedelta(hours=-12)), timezone(timedelta(hours=12))
    assert utc(datetime.max.replace(tzinfo=west)) == LATEST
    assert utc(datetime.min.replace(tzinfo=east)).year == 1
    assert clamp(datetime.max.replace(tzinfo=UTC)) == LATEST
    assert shift_instant(LATEST, timedelta(days=10**6)) is None
    assert shift_instant(LATEST, timedelta(seconds=1)) is None
    assert find_zone("Asia/Seoul").spans(1) == ()
