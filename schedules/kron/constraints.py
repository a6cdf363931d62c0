"""Parse constraints such as `dow=MON-FRI;hours=8-18` and test local times against them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache

from punctual.schedules.errors import DecisionError
from punctual.schedules.suggestions import did_you_mean
from punctual.schedules.text import BLANKS, clip, text_problem
from punctual.schedules.wall_clock.months import DAY_NAMES, MONTH_NAMES

_MONTHS = {name: n for n, name in enumerate(MONTH_NAMES, 1)}
_DAYS = {name: n for n, name in enumerate(DAY_NAMES)}
_SUNDAY_AGAIN = 7
_NUMBER = re.compile(r"[0-9]{1,2}")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMERIC: dict[str, tuple[int, int, dict[str, int]]] = {
    "hours": (0, 23, {}),
    "dow": (0, 7, _DAYS),  # 0 and 7 are both Sunday
    "dom": (1, 31, {}),
    "months": (1, 12, _MONTHS),
}
_KINDS = (*_NUMERIC, "between", "date", "dates")

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition: a kind such as `hours`, and inclusive spans of its values."""

    kind: str
    spans: Spans

    def matches(self, local: datetime) -> bool:
        value = _value(self.kind, local)
        return any(low <= value <= high for low, high in self.spans)


@dataclass(frozen=True, slots=True)
class Rules:
    """Compiled constraints: all clauses of one `only` set must match, and no `avoid` clause may."""

    only: tuple[tuple[Clause, ...], ...]
    avoid: tuple[Clause, ...]

    def admit(self, local: datetime) -> bool:
        if self.only and not any(all(c.matches(local) for c in clauses) for clauses in self.only):
            return False
        return not any(clause.matches(local) for clause in self.avoid)


@dataclass(frozen=True, slots=True)
class Constraints:
    """Clause sets as text; `decide` compiles them, and caches the result."""

    only: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()

    @classmethod
    def parse(cls, only: tuple[str, ...] = (), avoid: tuple[str, ...] = ()) -> Constraints:
        """Check the constraints now instead of at the first decision."""
        constraints = cls(tuple(only), tuple(avoid))
        constraints.compile()
        return constraints

    def compile(self) -> Rules:
        return _compile(tuple(self.only), tuple(self.avoid))


@lru_cache(maxsize=1024)
def _compile(only: tuple[str, ...], avoid: tuple[str, ...]) -> Rules:
    rejected = tuple(clause for text in avoid for clause in _clauses(text))
    return Rules(tuple(_clauses(text) for text in only), rejected)


def _clauses(text: str) -> tuple[Clause, ...]:
    """Parse one set: spans of the same kind are alternatives, different kinds must all match."""
    if problem := text_problem(text):
        raise _refusal("constraint", clip(text), problem, 0)
    spans: dict[str, Spans] = {}
    for kind, item, position in _items(text):
        try:
            span = _span(kind, item)
        except DecisionError as error:
            error.position = position
            raise
        # 5-7 is Friday to Saturday, and Sunday.
        sunday = ((0, 0),) if kind == "dow" and span[1] == _SUNDAY_AGAIN else ()
        spans[kind] = (*spans.get(kind, ()), span, *sunday)
    return tuple(Clause(kind, kind_spans) for kind, kind_spans in spans.items())


def _items(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield kind, value and position of every value of a set; of an unknown kind, the kind's position."""
    position = 0
    for part in text.split(";"):
        kind, equals, values = part.partition("=")
        start = position + len(kind) - len(kind.lstrip(BLANKS))
        position += len(kind) + len(equals)
        for value in values.split(","):
            at = position + len(value) - len(value.lstrip(BLANKS))
            yield kind.strip(BLANKS), value.strip(BLANKS), at if kind.strip(BLANKS) in _KINDS else start
            position += len(value) + 1


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
            raise _refusal(kind, item, "expected a single date")
        span = (_ordinal(kind, first), _ordinal(kind, last if dots else first))
    else:
        error = _refusal(kind, item, "unknown clause")
        error.hint = did_you_mean(kind, _KINDS)
        raise error
    if span[0] > span[1]:
        raise _refusal(kind, item, "a range must not wrap around")
    return span


def _number(kind: str, text: str) -> int:
    low, high, names = _NUMERIC[kind]
    value = int(text) if _NUMBER.fullmatch(text) else names.get(text.upper(), -1)
    if not low <= value <= high:
        error = _refusal(kind, text, f"expected a value in [{low}, {high}]")
        error.hint = did_you_mean(text, tuple(names))
        raise error
    return value


def _minute(item: str, text: str) -> int:
    match = _CLOCK.fullmatch(text)
    if not match:
        raise _refusal("between", item, "expected hh:mm-hh:mm")
    return int(match[1]) * 60 + int(match[2])


def _ordinal(kind: str, text: str) -> int:
    try:
        return date.fromisoformat(text if _DATE.fullmatch(text) else "").toordinal()
    except ValueError:
        raise _refusal(kind, text, "expected yyyy-mm-dd") from None


def _value(kind: str, local: datetime) -> int:
    if kind == "hours":
        return local.hour
    if kind == "dow":
        return local.isoweekday() % 7
    if kind == "dom":
        return local.day
    if kind == "months":
        return local.month
    return local.hour * 60 + local.minute if kind == "between" else local.toordinal()


def _refusal(field: str, value: str, reason: str, position: int | None = None) -> DecisionError:
    text = clip(value)
    message = f"{clip(field) or 'constraint'}: {reason}, got '{text}'"
    return DecisionError("invalid_constraint", message, field=clip(field), value=text, position=position)
