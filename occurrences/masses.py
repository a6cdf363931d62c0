"""The instants a job is behind and what its strategy runs of them → stretches that never run (OCC-5). Pure.

A year of a job that runs each minute is half a million instants. They are looked at one by one, so
that memory stays bounded, but written as ranges: first, last and how many.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from occurrences.strategies import Bounds


@dataclass(frozen=True)
class Stretch:
    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True)
class Absorbed:
    """`reached`: the last instant that was disposed of; None when the strategy spares all of them."""

    stretches: tuple[Stretch, ...] = ()
    reached: datetime | None = None
    instants: int = 0


def absorb(
    instants: Iterable[datetime], within: Bounds, *, known: Container[datetime] = frozenset(), limit: int
) -> Absorbed:
    """The first of `instants` that surely do not run, at most `limit` of them, so that a step stays short.

    `known` have a row already: a stretch ends before them.
    """
    found: list[Stretch] = []
    first = reached = None
    count = total = 0
    for instant in islice(surplus(instants, within), limit):
        total += 1
        if instant in known:
            found += _closed(first, reached, count)
            first, count = None, 0
        else:
            first, count = first or instant, count + 1
        reached = instant
    found += _closed(first, reached, count)
    return Absorbed(tuple(found), reached, total)


def surplus(instants: Iterable[datetime], within: Bounds) -> Iterator[datetime]:
    """Those for which it is certain that they do not run: too old, or enough newer ones follow."""
    held: deque[datetime] = deque()
    for instant in instants:
        if within.since is not None and instant < within.since:
            yield instant
        elif within.newest is None:
            return
        else:
            held.append(instant)
            if len(held) > within.newest:
                yield held.popleft()


def _closed(first: datetime | None, last: datetime | None, count: int) -> list[Stretch]:
    return [] if first is None or last is None else [Stretch(first, last, count)]
