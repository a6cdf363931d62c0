"""Two dates and times typed by an operator → a range of instants, in UTC.

The theme's own filter compares naive values and ignores a date without a time.
"""

# ruff: noqa: ARG002 - the signatures are Django's

from datetime import UTC, datetime, time
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_date, parse_time
from unfold.contrib.filters.admin import RangeDateTimeFilter  # type: ignore[import-untyped]


class BetweenFilter(RangeDateTimeFilter):  # type: ignore[misc]  # the theme ships no types
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        bounds = {"gte": self.bound("from", time.min), "lte": self.bound("to", time.max)}
        named = {f"{self.field_path}__{lookup}": at for lookup, at in bounds.items() if at}
        return queryset.filter(**named)

    def bound(self, end: str, whole_day: time) -> datetime | None:
        day, clock = (self.used_parameters.get(f"{self.field_path}_{end}_{n}") for n in (0, 1))
        return instant_of(day or "", clock or "", whole_day)


def instant_of(day: str, clock: str, whole_day: time) -> datetime | None:
    """A date alone means the whole day; what is no date bounds nothing."""
    try:
        date, at = parse_date(day), parse_time(clock) if clock else whole_day
    except ValueError:
        return None
    return datetime.combine(date, at, UTC) if date and at else None
