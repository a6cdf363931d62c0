"""Two streams in order of time, instants owed and rows that stand for them → every difference. Pure.

Both are walked once, side by side, so memory does not grow with the ledger. Neighbouring instants
without a row are told as one difference with a count.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Kind(StrEnum):
    MISSING = "missing"  # owed, and no row stands for it
    DOUBLED = "doubled"  # two rows stand for the same instant
    UNOWED = "unowed"  # a row no definition explains
    MISCOUNTED = "miscounted"  # a range that says another number of instants than it spans
    UNPLANNED = "unplanned"  # owed and past, and planning has not come there
    UNFIRED = "unfired"  # a row that is long due and still pending


@dataclass(frozen=True)
class Difference:
    kind: Kind
    first: datetime
    last: datetime
    count: int = 1
    occurrence: UUID | None = None


@dataclass(frozen=True)
class Standing:
    """What a row says it stands for. `scheduled` rows must be owed; a manual one may happen to be.

    `count` 0: the comparison cuts the row off, so its number cannot be checked.
    """

    id: UUID
    first: datetime
    last: datetime
    count: int
    version: int
    scheduled: bool = True


Explained = Callable[[Standing], bool]


def compare(
    owed: Iterable[datetime], rows: Iterable[Standing], *, explained: Explained = lambda _row: False
) -> Iterator[Difference]:
    """`explained` is asked about rows nothing owes: an older definition may have been kept for them."""
    due = _Walk(owed)
    reached: datetime | None = None
    for row in rows:
        yield from due.missing_before(row.first)
        if reached is not None and row.first <= reached:
            if row.scheduled:
                yield Difference(Kind.DOUBLED, row.first, row.last, row.count, row.id)
            continue
        found = due.take_until(row.last)
        if found:
            reached = row.last
        if row.count and found != row.count and (row.scheduled or found):
            yield from _disagreement(row, found, explained)
    yield from due.missing_before(None)


def _disagreement(row: Standing, found: int, explained: Explained) -> Iterator[Difference]:
    if found or row.count > 1:
        yield Difference(Kind.MISCOUNTED, row.first, row.last, found, row.id)
    elif not explained(row):
        yield Difference(Kind.UNOWED, row.first, row.last, row.count, row.id)


class _Walk:
    """The owed instants, one ahead at a time."""

    def __init__(self, owed: Iterable[datetime]) -> None:
        self._rest = iter(owed)
        self._next = next(self._rest, None)

    def missing_before(self, limit: datetime | None) -> Iterator[Difference]:
        first = last = None
        count = 0
        while self._next is not None and (limit is None or self._next < limit):
            first, last, count = first or self._next, self._next, count + 1
            self._next = next(self._rest, None)
        if first is not None and last is not None:
            yield Difference(Kind.MISSING, first, last, count)

    def take_until(self, last: datetime) -> int:
        count = 0
        while self._next is not None and self._next <= last:
            count += 1
            self._next = next(self._rest, None)
        return count
