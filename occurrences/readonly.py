"""What the pages of the ledger share: read-only rows that know their job, found by id or by job."""

# ruff: noqa: ARG002 - the signatures are Django's

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from jobs.display import NOTHING, full_id, instant, link, short_id, shortened, span, zone_of
from jobs.ids import parsed
from jobs.models import Job
from jobs.secrecy import without_secrets
from jobs.theme import PlainAdmin
from occurrences.badges import state_badge
from occurrences.models import Occurrence
from occurrences.states import AttemptState, OccurrenceState, RunState

Row = TypeVar("Row", bound=Model)
Shown = SafeString | str
States = type[OccurrenceState] | type[RunState] | type[AttemptState]


class LedgerAdmin(PlainAdmin[Row]):
    """Read-only: the ledger's only writer is `transitions.py`."""

    actions: Any = None
    sortable_by: ClassVar[Any] = []  # a click on a column without an index would sort millions of rows
    search_fields = ["id"]  # turns the search box on; `get_search_results` does the looking up
    id_kind: ClassVar[str]
    job_path: ClassVar[str]
    related: ClassVar[Sequence[str]] = ()  # what else a row's columns name
    states: ClassVar[States]

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Row]:
        return super().get_queryset(request).select_related(self.job_path, *self.related)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Row], search_term: str
    ) -> tuple[QuerySet[Row], bool]:
        """An id is looked up; anything else is looked for among the jobs' names, which are few."""
        text = search_term.strip()
        if not text:
            return queryset, False
        try:
            return queryset.filter(pk=parsed(self.id_kind, text)), False
        except ValueError:
            jobs = Job.objects.filter(name__icontains=text)
            return queryset.filter(**{f"{self.job_path}__in": jobs}), False

    def job_of(self, row: Row) -> Job:
        job: Job = attrgetter(self.job_path.replace("__", "."))(row)
        return job

    def changes_by_itself(self, row: Any) -> bool:
        return row.finished_at is None

    def when(self, occurrence: Occurrence) -> Shown:
        """Its instant on the job's clock."""
        return instant(occurrence.scheduled_for, zone_of(occurrence.job))

    @admin.display(description="id")
    def id_shown(self, row: Any) -> Shown:
        return short_id(row.shown_id)

    @admin.display(description="id")
    def full_id(self, row: Any) -> Shown:
        return full_id(row.shown_id)

    @admin.display(description="job")
    def job_shown(self, row: Row) -> Shown:
        return link(self.job_of(row), shortened(self.job_of(row).name))

    @admin.display(description="state")
    def state_shown(self, row: Any) -> Shown:
        return state_badge(self.states(row.state), getattr(row, "reason", ""))

    @admin.display(description="reason")
    def reason_full(self, row: Any) -> str:
        return without_secrets(row.reason) or NOTHING

    @admin.display(description="took")
    def took(self, row: Any) -> Shown:
        return took(row)


def moment(field: str, title: str) -> Callable[[Any, Any], Shown]:
    """A column that shows an instant in UTC and on the job's own clock."""

    @admin.display(description=title)
    def shown(page: Any, row: Any) -> Shown:
        return instant(getattr(row, field), zone_of(page.job_of(row)))

    return shown


def took(row: Any) -> Shown:
    over = row.started_at is not None and row.finished_at is not None
    return span(row.finished_at - row.started_at if over else None)
