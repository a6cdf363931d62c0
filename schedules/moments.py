"""An ISO 8601 date or datetime text in -> a moment out that a zone turns into an instant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone

from schedules.instants import EARLIEST, LATEST
from schedules.zones import Zone

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_SHAPE = re.compile(
    _DATE + r"(?:T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(Z|([+-])(\d\d):([0-5]\d))?)?", re.ASCII
)
_LAST_MOMENT = time(23, 59, 59, 999_000)


@dataclass(frozen=True, slots=True)
class Moment:
    """A wall time (tagged UTC), its offset if the text gave one, and whether it was a date only."""

    wall: datetime
    offset: timedelta | None
    is_date: bool

    def starts(self, zone: Zone) -> datetime:
        """The instant meant; a bare date begins at its midnight."""
        if self.offset is not None:
            return self.wall - self.offset
        placed = zone.place(self.wall)
        return LATEST if placed is None else placed.instant

    def ends(self, zone: Zone) -> datetime:
        """The instant meant; a bare date ends with its last millisecond."""
        if self.is_date:
            return zone.last_showing(datetime.combine(self.wall.date(), _LAST_MOMENT, UTC)) or LATEST
        return self.starts(zone)

    @property
    def canonical(self) -> str:
        if self.is_date:
            return self.wall.date().isoformat()
        text = self.wall.replace(tzinfo=None).isoformat()
        return text if self.offset is None else text + format_offset(self.offset)


def parse_moment(text: str) -> Moment | None:
    """None when the text is not of the shape or names no real time in the supported years."""
    found = _SHAPE.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micros = int((found[7] or "").ljust(6, "0"))
    try:
        wall = datetime(year, month, day, hour, minute, second, micros, UTC)
    except ValueError:
        return None
    offset = _offset(found)
    outside = not EARLIEST.year < wall.year < LATEST.year
    if outside or (offset is not None and abs(offset) >= timedelta(days=1)):
        return None
    return Moment(wall, offset, is_date=found[4] is None)


def _offset(found: re.Match[str]) -> timedelta | None:
    if found[8] is None:
        return None
    if found[8] == "Z":
        return timedelta()
    size = timedelta(hours=int(found[10]), minutes=int(found[11]))
    return -size if found[9] == "-" else size


def format_offset(offset: timedelta) -> str:
    return str(timezone(offset)).removeprefix("UTC") if offset else "Z"
