"""Parse ISO 8601 dates and datetimes into moments, which a zone resolves to instants."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone

from punctual.schedules.utc import EARLIEST, LATEST
from punctual.schedules.wall_clock.zones import Zone

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_SHAPE = re.compile(
    _DATE + r"(?:T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(Z|([+-])(\d\d):([0-5]\d))?)?", re.ASCII
)
_LAST_MOMENT = time(23, 59, 59, 999_000)


@dataclass(frozen=True, slots=True)
class Moment:
    """A wall time (tagged UTC), its offset if the text has one, and whether the text is a date only."""

    wall: datetime
    offset: timedelta | None
    is_date: bool

    def starts(self, zone: Zone) -> datetime:
        """Resolve to an instant; a date without a time starts at midnight."""
        if self.offset is not None:
            return self.wall - self.offset
        placement = zone.place(self.wall)
        return LATEST if placement is None else placement.instant

    def ends(self, zone: Zone) -> datetime:
        """Resolve to an instant; a date without a time ends with its last millisecond."""
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
    """Parse a moment; None if the text is malformed or not a real time in the supported years."""
    match = _SHAPE.fullmatch(text)
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match[7] or "").ljust(6, "0"))
    try:
        wall = datetime(year, month, day, hour, minute, second, micros, UTC)
    except ValueError:
        return None
    offset = _offset(match)
    outside = not EARLIEST.year < wall.year < LATEST.year
    if outside or (offset is not None and abs(offset) >= timedelta(days=1)):
        return None
    return Moment(wall, offset, is_date=match[4] is None)


def _offset(match: re.Match[str]) -> timedelta | None:
    if match[8] is None:
        return None
    if match[8] == "Z":
        return timedelta()
    size = timedelta(hours=int(match[10]), minutes=int(match[11]))
    return -size if match[9] == "-" else size


def format_offset(offset: timedelta) -> str:
    return str(timezone(offset)).removeprefix("UTC") if offset else "Z"
