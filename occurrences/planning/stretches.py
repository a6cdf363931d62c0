"""Collect late instants that never run into stretches: first, last and count (OCC-5). Pure.

A year of a job that runs every minute is half a million instants. They are visited one by one, so memory
stays bounded, and written as ranges.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from punctual.occurrences.planning.catchup_policy import Bounds


@dataclass(frozen=True)
class Stretch:
    """Consecutive instants of a schedule."""

    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True)
class Stretches:
    """`reached`: the last instant that was visited; None when the policy runs all of them."""

    items: tuple[Stretch, ...] = ()
    reached: datetime | None = None
    instants: int = 0


def collect_stretches(
    instants: Iterable[datetime], within: Bounds, *, known: Container[datetime] = frozenset(), limit: int
) -> Stretches:
    """The stretches of the first `limit` instants that certainly do not run.

    `known` instants have a row already: a stretch ends before each of them.
    """
    items: list[Stretch] = []
    first = reached = None
    count = total = 0
    for instant in islice(surplus(instants, within), limit):
        total += 1
        if instant in known:
            items += _stretch(first, reached, count)
            first, count = None, 0
        else:
            first, count = first or instant, count + 1
        reached = instant
    items += _stretch(first, reached, count)
    return Stretches(tuple(items), reached, total)


def surplus(instants: Iterable[datetime], within: Bounds) -> Iterator[datetime]:
    """The instants that certainly do not run: too old, or followed by enough newer ones."""
    newest: deque[datetime] = deque()
    for instant in instants:
        if within.since is not None and instant < within.since:
            yield instant
        elif within.newest is None:
            return
        else:
            newest.append(instant)
            if len(newest) > within.newest:
                yield newest.popleft()


def _stretch(first: datetime | None, last: datetime | None, count: int) -> list[Stretch]:
    return [] if first is None or last is None else [Stretch(first, last, count)]
