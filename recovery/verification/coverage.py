"""Compare owed instants with the rows that represent them, and return every difference. Pure.

Both streams are in order of time and are read once, side by side, so memory does not grow with the ledger.
Adjacent instants without a row are one difference with a count.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Kind(StrEnum):
    MISSING = "missing"  # owed, without a row
    DOUBLED = "doubled"  # two rows represent the same instant
    UNOWED = "unowed"  # a row that no definition explains
    MISCOUNTED = "miscounted"  # a range whose number of instants is wrong
    UNPLANNED = "unplanned"  # owed and past, but not planned yet
    UNFIRED = "unfired"  # a row that is long due and still pending
    UNSETTLED = "unsettled"  # fell into a pause, and is not skipped with the reason `paused`
    UNPAUSED = "unpaused"  # skipped with the reason `paused`, and there was no pause
    CONTRADICTED = "contradicted"  # its reason or its runs do not fit its state
    UNCOVERED = "uncovered"  # refers to a compressed run that does not cover it
    REWOUND = "rewound"  # the cursor stands before what was pruned: instants could run again


@dataclass(frozen=True)
class Difference:
    kind: Kind
    first: datetime
    last: datetime
    count: int = 1
    occurrence: UUID | None = None


@dataclass(frozen=True)
class LedgerRow:
    """The instants a row represents. `scheduled` rows must be owed; a manual one may be.

    `count` is 0 when the comparison cuts the row off, so that its number cannot be checked.
    """

    id: UUID
    first: datetime
    last: datetime
    count: int
    version: int
    scheduled: bool = True


Explained = Callable[[LedgerRow], bool]


def compare(
    owed: Iterable[datetime], rows: Iterable[LedgerRow], *, explained: Explained = lambda _row: False
) -> Iterator[Difference]:
    """`explained` is called for rows that are not owed: an older definition may explain them."""
    instants = _Instants(owed)
    covered_until: datetime | None = None
    for row in rows:
        yield from instants.missing_before(row.first)
        if covered_until is not None and row.first <= covered_until:
            if row.scheduled:
                yield Difference(Kind.DOUBLED, row.first, row.last, row.count, row.id)
            continue
        count = instants.take_until(row.last)
        if count:
            covered_until = row.last
        if row.count and count != row.count and (row.scheduled or count):
            yield from _disagreement(row, count, explained)
    yield from instants.missing_before(None)


def _disagreement(row: LedgerRow, count: int, explained: Explained) -> Iterator[Difference]:
    if count or row.count > 1:
        yield Difference(Kind.MISCOUNTED, row.first, row.last, count, row.id)
    elif not explained(row):
        yield Difference(Kind.UNOWED, row.first, row.last, row.count, row.id)


class _Instants:
    """The owed instants, read one ahead."""

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
