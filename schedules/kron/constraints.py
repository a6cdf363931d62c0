"""Clause sets such as `dow=MON-FRI;hours=8-18` in -> a test of local times out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache

from schedules.errors import DecisionError
from schedules.months import DAY_NAMES, MONTH_NAMES
from schedules.text import BLANKS, MAX_LENGTH, clip

_MONTHS = {name: n for n, name in enumerate(MONTH_NAMES, 1)}
_DAYS = {name: n for n, name in enumerate(DAY_NAMES)}
_NUMBER = re.compile(r"[0-9]{1,2}")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMERIC: dict[str, tuple[int, int, dict[str, int]]] = {
    "hours": (0, 23, {}),
    "dow": (0, 6, _DAYS),
    "dom": (1, 31, {}),
    "months": (1, 12, _MONTHS),
}

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """One kind of condition; its spans are inclusive, in that kind's own numbers."""

    kind: str
    spans: Spans

    def matches(self, local: datetime) -> bool:
        value = _reading(self.kind, local)
        return any(low <= value <= high for low, high in self.spans)


@dataclass(frozen=True, slots=True)
class Rules:
    """Compiled constraints: one `only` set must match entirely, and no `avoid` clause at all."""

    only: tuple[tuple[Clause, ...], ...]
    avoid: tuple[Clause, ...]

    def admit(self, local: datetime) -> bool:
        if self.only and not any(all(c.matches(local) for c in clauses) for clauses in self.only):
            return False
        return not any(clause.matches(local) for clause in self.avoid)


@dataclass(frozen=True, slots=True)
class Constraints:
    """Clause sets as text; `decide` compiles them, once per distinct value."""

    only: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()

    @classmethod
    def parse(cls, only: tuple[str, ...] = (), avoid: tuple[str, ...] = ()) -> Constraints:
        """The constraints, checked at once instead of at the first decision."""
        constraints = cls(tuple(only), tuple(avoid))
        constraints.compile()
        return constraints

    def compile(self) -> Rules:
        return _compile(self.only, self.avoid)


@lru_cache(maxsize=1024)
def _compile(only: tuple[str, ...], avoid: tuple[str, ...]) -> Rules:
    rejected = tuple(clause for text in avoid for clause in _clauses(text))
    return Rules(tuple(_clauses(text) for text in only), rejected)


def _clauses(text: str) -> tuple[Clause, ...]:
    """Clauses of the same kind in one set add up; different kinds must all hold."""
    if len(text) > MAX_LENGTH:
        raise _refused("constraint", text, f"longer than {MAX_LENGTH} characters")
    spans: dict[str, Spans] = {}
    for part in text.split(";"):
        kind, _, value = (piece.strip(BLANKS) for piece in part.partition("="))
        spans[kind] = spans.get(kind, ()) + tuple(
            _span(kind, item.strip(BLANKS)) for item in value.split(",")
        )
    return tuple(Clause(kind, found) for kind, found in spans.items())


def _span(kind: str, item: str) -> tuple[int, int]:
    if kind in _NUMERIC:
        first, dash, last = item.partition("-")
        span = (_number(kind, first), _number(kind, last if dash else first))
    elif kind == "between":
        first, _, last = item.partition("-")
        span = (_minute(item, first), _minute(item, last))
    elif kind in {"date", "dates"}:
        first, dots, last = item.partition("..")
        if dots and kind == "date":
            raise _refused(kind, item, "expected a single date")
        span = (_ordinal(kind, first), _ordinal(kind, last if dots else first))
    else:
        raise _refused(kind, item, "unknown clause")
    if span[0] > span[1]:
        raise _refused(kind, item, "a range must not wrap around")
    return span


def _number(kind: str, text: str) -> int:
    low, high, names = _NUMERIC[kind]
    value = int(text) if _NUMBER.fullmatch(text) else names.get(text.upper(), -1)
    if not low <= value <= high:
        raise _refused(kind, text, f"expected a value in [{low}, {high}]")
    return value


def _minute(item: str, text: str) -> int:
    found = _CLOCK.fullmatch(text)
    if not found:
        raise _refused("between", item, "expected hh:mm-hh:mm")
    return int(found[1]) * 60 + int(found[2])


def _ordinal(kind: str, text: str) -> int:
    try:
        return date.fromisoformat(text if _DATE.fullmatch(text) else "").toordinal()
    except ValueError:
        raise _refused(kind, text, "expected yyyy-mm-dd") from None


def _reading(kind: str, local: datetime) -> int:
    if kind == "hours":
        return local.hour
    if kind == "dow":
        return local.isoweekday() % 7
    if kind == "dom":
        return local.day
    if kind == "months":
        return local.month
    return local.hour * 60 + local.minute if kind == "between" else local.toordinal()


def _refused(field: str, value: str, reason: str) -> DecisionError:
    shown = clip(value)
    message = f"{clip(field) or 'constraint'}: {reason}, got '{shown}'"
    return DecisionError("invalid_constraint", message, field=clip(field), value=shown)
