"""Read a rate such as `10/m`: at most so many starts in that time, evenly spaced."""

import re
from datetime import timedelta
from functools import lru_cache

UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
MAX_COUNT = 100_000
PATTERN = re.compile(r"([0-9]{1,6})/([smhd])", re.ASCII)


def read_rate(value: object) -> str:
    """Return the rate as text; ValueError says what is allowed."""
    match = PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match[1]) <= MAX_COUNT:
        raise ValueError(f"expected a rate such as 10/m: 1 to {MAX_COUNT} per s, m, h or d")
    return f"{int(match[1])}/{match[2]}"


@lru_cache(maxsize=256)
def start_interval(rate: str | None) -> timedelta:
    """The time from one start to the next; zero without a rate."""
    if rate is None:
        return timedelta()
    count, unit = read_rate(rate).split("/")
    return UNITS[unit] / int(count)
