"""Filters of the ledger's lists: by state over partial indexes, by a range of instants in UTC.

Runs and attempts have no index by state: it would cost every insert. Open rows are found by the partial
indexes that the sweeper needs anyway, if the query repeats their condition. The theme's own range filter
compares naive values and ignores a date without a time.
"""

# ruff: noqa: ARG002 - the signatures are Django's

from datetime import UTC, datetime, time
from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_date, parse_time
from unfold.contrib.filters.admin import RangeDateTimeFilter  # type: ignore[import-untyped]

from punctual.console.kit.theme import ChoicesDropdownFilter
from punctual.occurrences.states import RUN_HELD, AttemptState, RunState

PARKED = Q(parked_at__isnull=False)
SENT = Q(dispatched_at__isnull=False, parked_at__isnull=True)
UNSENT = Q(dispatched_at__isnull=True, parked_at__isnull=True)
SCHEDULED = Q(state=RunState.SCHEDULED)


class HintedFilter(ChoicesDropdownFilter):  # type: ignore[misc]  # the theme ships no types
    """Filter by state; `hints` repeat the condition of an index, and hold for every row in that state."""

    hints: ClassVar[dict[str, Q]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        narrowed: QuerySet[Any] = super().queryset(request, queryset)
        value = self.used_parameters.get(self.lookup_kwarg, "")
        state = value[0] if isinstance(value, list) else value
        return narrowed.filter(self.hints[state]) if state in self.hints else narrowed


class RunStateFilter(HintedFilter):
    hints: ClassVar[dict[str, Q]] = {
        # Three indexes: `run_unsent`, `run_unclaimed` and `run_parked`.
        RunState.SCHEDULED: SCHEDULED & UNSENT | SCHEDULED & SENT | SCHEDULED & PARKED,
    }


class AttemptStateFilter(HintedFilter):
    hints: ClassVar[dict[str, Q]] = {AttemptState.RUNNING: Q(run__state__in=RUN_HELD)}


class InstantRangeFilter(RangeDateTimeFilter):  # type: ignore[misc]  # the theme ships no types
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        bounds = {"gte": self.bound("from", time.min), "lte": self.bound("to", time.max)}
        lookups = {f"{self.field_path}__{lookup}": at for lookup, at in bounds.items() if at}
        return queryset.filter(**lookups)

    def bound(self, end: str, whole_day: time) -> datetime | None:
        day, clock = (self.used_parameters.get(f"{self.field_path}_{end}_{n}") for n in (0, 1))
        return parse_bound(day or "", clock or "", whole_day)


def parse_bound(day: str, clock: str, whole_day: time) -> datetime | None:
    """Parse a date and a time in UTC; a date alone means the whole day, and no date means no bound."""
    try:
        date, at = parse_date(day), parse_time(clock) if clock else whole_day
    except ValueError:
        return None
    return datetime.combine(date, at, UTC) if date and at else None
