"""Parse one cron field into its bit mask, canonical text and problems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from punctual.schedules import suggestions
from punctual.schedules.chronex.error_codes import bad_step, out_of_range
from punctual.schedules.errors import Problem
from punctual.schedules.wall_clock.months import DAY_NAMES, MONTH_NAMES

_DIGITS = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The values of one field; `size` is the number of distinct values, so that 7 folds onto Sunday."""

    name: str
    code: str
    low: int
    high: int
    size: int
    names: Mapping[str, int] = field(default_factory=dict[str, int])

    def number(self, text: str) -> int | None:
        """Parse digits or a name into a value of the domain; None if it is not one."""
        if _DIGITS.fullmatch(text):
            value = int(text)
        else:
            value = self.names.get(text.upper(), -1) if text.isascii() else -1
        return value if self.low <= value <= self.high else None

    def fold(self, value: int) -> int:
        return (value - self.low) % self.size + self.low

    def refuse(self, text: str, position: int) -> Problem:
        hint = suggestions.for_field(self.name, text, tuple(self.names))
        problem = out_of_range(self.code, self.name, text, self.low, self.high, position)
        return replace(problem, hint=hint)


SECOND = Domain("second", "E001", 0, 59, 60)
MINUTE = Domain("minute", "E002", 0, 59, 60)
HOUR = Domain("hour", "E003", 0, 23, 24)
MONTH_DAY = Domain("dayOfMonth", "E004", 1, 31, 31)
MONTH = Domain("month", "E005", 1, 12, 12, {name: n for n, name in enumerate(MONTH_NAMES, 1)})
WEEK_DAY = Domain("dayOfWeek", "E006", 0, 7, 7, {name: n for n, name in enumerate(DAY_NAMES)})


@dataclass(frozen=True, slots=True)
class Field:
    """A parsed field; `is_interval` if it contains a `*`, a range or a step."""

    mask: int
    canonical: str
    is_interval: bool
    problems: tuple[Problem, ...] = ()


@lru_cache(maxsize=8192)
def parse_field(domain: Domain, text: str) -> Field:
    """Parse a field; positions of problems count from the start of the field."""
    if text == "*":
        return Field(_mask(domain, domain.low, domain.high, 1), "*", is_interval=True)
    mask, canonical, problems, position = 0, list[str](), list[Problem](), 0
    for element in text.split(","):
        parsed = _element(domain, element, position)
        mask |= parsed.mask
        canonical.append(parsed.canonical)
        problems.extend(parsed.problems)
        position += len(element) + 1
    is_interval = any(mark in text for mark in "*-/")
    return Field(mask, ",".join(canonical), is_interval, tuple(problems))


def _element(domain: Domain, text: str, position: int) -> Field:
    base, slash, step_text = text.partition("/")
    step = _step(step_text) if slash else 1
    problems: list[Problem] = []
    first, last = _bounds(domain, base, position, problems, has_step=bool(slash))
    if step is None:
        problems.append(bad_step(domain.name, step_text, position + len(base) + 1))
    if problems or step is None:
        return Field(0, text, is_interval=False, problems=tuple(problems))
    mask = _mask(domain, first, last, step)
    return Field(mask, _canonical(domain, base, first, last, step_text and str(step)), is_interval=False)


def _bounds(
    domain: Domain, base: str, position: int, problems: list[Problem], *, has_step: bool
) -> tuple[int, int]:
    """First and last value; for a range that wraps around, the last value exceeds the domain."""
    if base == "*" and has_step:
        return domain.low, domain.high
    dash = base.find("-", 1)
    texts = [(base, 0)] if dash < 0 else [(base[:dash], 0), (base[dash + 1 :], dash + 1)]
    values: list[int] = []
    for text, offset in texts:
        value = domain.number(text)
        if value is None:
            problems.append(domain.refuse(text, position + offset))
        else:
            values.append(value)
    if problems:
        return 0, 0
    if len(values) == 1:
        return values[0], domain.high if has_step else values[0]
    first, last = values
    return first, last if first <= last else last + domain.size


def _step(text: str) -> int | None:
    return (int(text) or None) if _DIGITS.fullmatch(text) else None


def _mask(domain: Domain, first: int, last: int, step: int) -> int:
    mask = 0
    for value in range(first, last + 1, step):
        mask |= 1 << domain.fold(value)
    return mask


def _canonical(domain: Domain, base: str, first: int, last: int, step: str) -> str:
    """Write numbers instead of names and 0 instead of 7, without changing the meaning."""
    tail = f"/{step}" if step else ""
    if base == "*":
        return f"*{tail}"
    start = domain.fold(first)
    if "-" not in base:
        # `7/n` means Sunday only; `0/n` would continue through the week.
        return f"{start}" if first != start else f"{start}{tail}"
    if last - first >= domain.size:
        return f"{start}-{domain.fold(last - 1)}{tail}"
    return f"{start}-{domain.fold(last)}{tail}"
