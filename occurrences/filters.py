"""A state asked for → the same rows, said so that the partial indexes of the sweeps find them.

Runs and attempts have no index by state: each would cost every insert. What is open is found by the
indexes that recovery needs anyway, if the question repeats their condition.
"""

from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from jobs.theme import ChoicesDropdownFilter
from occurrences.states import RUN_HELD, AttemptState, RunState

SENT, UNSENT = Q(dispatched_at__isnull=False), Q(dispatched_at__isnull=True)


class HintedFilter(ChoicesDropdownFilter):  # type: ignore[misc]  # the theme ships no types
    """`hints` are true of every row in that state."""

    hints: ClassVar[dict[str, Q]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        narrowed: QuerySet[Any] = super().queryset(request, queryset)
        asked = self.used_parameters.get(self.lookup_kwarg, "")
        state = asked[0] if isinstance(asked, list) else asked
        return narrowed.filter(self.hints[state]) if state in self.hints else narrowed


class RunStateFilter(HintedFilter):
    hints: ClassVar[dict[str, Q]] = {
        # `run_unsent` or `run_unclaimed`.
        RunState.SCHEDULED: Q(state=RunState.SCHEDULED) & UNSENT | Q(state=RunState.SCHEDULED) & SENT,
    }


class AttemptStateFilter(HintedFilter):
    hints: ClassVar[dict[str, Q]] = {AttemptState.RUNNING: Q(run__state__in=RUN_HELD)}
