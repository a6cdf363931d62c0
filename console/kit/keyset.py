"""Keyset paging: read the page after or before a row, at the cost of one page.

OFFSET reads and discards everything it skips; page 20,000 would read a million rows. A place is the primary
key of a row; its sort values are looked up, and the index leads straight there. The columns of the ordering
must not be null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet

AFTER, BEFORE = "after", "before"


@dataclass(frozen=True)
class Key:
    """One column of an ordering."""

    path: str
    descending: bool

    @property
    def text(self) -> str:
        return f"-{self.path}" if self.descending else self.path

    @property
    def inverted(self) -> "Key":
        return Key(self.path, not self.descending)

    def beyond(self, value: object) -> Q:
        return Q(**{f"{self.path}__{'lt' if self.descending else 'gt'}": value})

    def from_(self, value: object) -> Q:
        return Q(**{f"{self.path}__{'lte' if self.descending else 'gte'}": value})


@dataclass(frozen=True)
class KeysetPage:
    """`earlier` and `later` are places to continue from; empty if there are no rows that way."""

    rows: Sequence[Any]
    earlier: str = ""
    later: str = ""


def page(rows: QuerySet[Any], place: Mapping[str, str], size: int) -> KeysetPage:
    keys = keys_of(rows)
    backwards = BEFORE in place
    start = _sort_values(rows, keys, place.get(BEFORE) or place.get(AFTER, ""))
    if start is None:  # no place requested, or its row was deleted: start at the top
        first = list(rows[: size + 1])
        return _page(first[:size], earlier=False, later=len(first) > size)
    if backwards:
        inverted = [key.inverted for key in keys]
        order = [key.text for key in inverted]
        before = list(rows.filter(beyond(inverted, start)).order_by(*order)[: size + 1])
        return _page(before[:size][::-1], earlier=len(before) > size, later=True)
    after = list(rows.filter(beyond(keys, start))[: size + 1])
    return _page(after[:size], earlier=True, later=len(after) > size)


def keys_of(rows: QuerySet[Any]) -> list[Key]:
    return [Key(str(one).removeprefix("-"), str(one).startswith("-")) for one in rows.query.order_by]


def beyond(keys: Sequence[Key], values: Sequence[object]) -> Q:
    """Match rows after `values`. The bound on the first column stands alone: an index can use it."""
    first, *_ = keys
    after, same = Q(), Q()
    for key, value in zip(keys, values, strict=True):
        after |= same & key.beyond(value)
        same &= Q(**{key.path: value})
    return first.from_(values[0]) & after


def _page(rows: Sequence[Any], *, earlier: bool, later: bool) -> KeysetPage:
    if not rows:
        return KeysetPage(rows)
    return KeysetPage(
        rows,
        earlier=str(rows[0].pk) if earlier else "",
        later=str(rows[-1].pk) if later else "",
    )


def _sort_values(rows: QuerySet[Any], keys: Sequence[Key], place: str) -> Sequence[object] | None:
    if not place:
        return None
    try:
        whole: QuerySet[Any] = QuerySet(rows.model).filter(pk=place)
        return whole.order_by().values_list(*[key.path for key in keys]).first()
    except (ValidationError, ValueError):
        return None
