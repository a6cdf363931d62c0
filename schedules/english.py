"""Put numbers, bit masks and durations into English words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from punctual.schedules.durations import milliseconds
from punctual.schedules.wall_clock.timetable import lowest

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_UNITS = (
    (86_400_000, "day"),
    (3_600_000, "hour"),
    (60_000, "minute"),
    (1_000, "second"),
    (1, "millisecond"),
)


def join_words(items: Sequence[str], conjunction: str = "and") -> str:
    """Join words: `a`, `a and b`, `a, b and c`."""
    if not items[1:]:
        return "".join(items)
    return f"{', '.join(items[:-1])} {conjunction} {items[-1]}"


def count_noun(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def every(count: int, noun: str, *, is_even: bool) -> str:
    """`every 5 minutes`, or `every 7th minute` where the step does not divide the hour."""
    if count == 1:
        return f"every {noun}"
    return f"every {count} {noun}s" if is_even else f"every {ordinal(count)} {noun}"


def ordinal(number: int) -> str:
    ending = "th" if number in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def duration_words(duration: timedelta) -> str:
    """Format a duration as `1 hour 30 minutes`."""
    rest = milliseconds(duration)
    parts: list[str] = []
    for size, noun in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(count_noun(count, noun))
    return " ".join(parts) or "0 seconds"


def members(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def step_of(mask: int, low: int, high: int) -> int | None:
    """The n of `*/n` if the mask is exactly that pattern over [low, high], else None."""
    if not mask >> low & 1:
        return None
    rest = mask >> low + 1
    step = lowest(rest) + 1 if rest else high - low + 1
    expected = sum(1 << value for value in range(low, high + 1, step))
    return step if mask == expected else None


def ranges(mask: int, name: Callable[[int], str]) -> str:
    """List the members of a mask by name, three or more in a row as `a to b`."""
    runs: list[list[int]] = []
    for value in members(mask):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return join_words([text for run in runs for text in _run(run, name)])


def _run(run: list[int], name: Callable[[int], str]) -> list[str]:
    if run[2:]:
        return [f"{name(run[0])} to {name(run[-1])}"]
    return [name(value) for value in run]
