"""Base of the pages of occurrences, runs and attempts: read-only, searched by id or by job."""

# ruff: noqa: ARG002 - the signatures are Django's

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from punctual.console.kit.badges import state_badge
from punctual.console.kit.display import NOTHING, full_id, instant, link, short_id, shorten, span, zone_of
from punctual.console.kit.theme import ConsoleAdmin
from punctual.jobs.ids import parse_id
from punctual.jobs.models import Job
from punctual.jobs.redaction import redact_text
from punctual.occurrences.models import Occurrence
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState

Row = TypeVar("Row", bound=Model)
Cell = SafeString | str
States = type[OccurrenceState] | type[RunState] | type[AttemptState]


class LedgerAdmin(ConsoleAdmin[Row]):
    """Read-only: the ledger's only writer is `transitions.py`."""

    actions: Any = None
    sortable_by: ClassVar[Any] = []  # sorting by a column without an index would read millions of rows
    search_fields = ["id"]  # shows the search box; `get_search_results` does the search
    id_kind: ClassVar[str]
    job_path: ClassVar[str]
    related: ClassVar[Sequence[str]] = ()  # other relations that the columns show
    states: ClassVar[States]

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Row]:
        return super().get_queryset(request).select_related(self.job_path, *self.related)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Row], search_term: str
    ) -> tuple[QuerySet[Row], bool]:
        """Look up an id; search anything else in the names of jobs, which are few."""
        text = search_term.strip()
        if not text:
            return queryset, False
        try:
            return queryset.filter(pk=parse_id(self.id_kind, text)), False
        except ValueError:
            jobs = Job.objects.filter(name__icontains=text)
            return queryset.filter(**{f"{self.job_path}__in": jobs}), False

    def job_of(self, row: Row) -> Job:
        job: Job = attrgetter(self.job_path.replace("__", "."))(row)
        return job

    def is_live(self, row: Any) -> bool:
        return row.finished_at is None

    def when(self, occurrence: Occurrence) -> Cell:
        """Show the instant of an occurrence on the clock of its job."""
        return instant(occurrence.scheduled_for, zone_of(occurrence.job))

    @admin.display(description="id")
    def id_cell(self, row: Any) -> Cell:
        return short_id(row.display_id)

    @admin.display(description="id")
    def full_id(self, row: Any) -> Cell:
        return full_id(row.display_id)

    @admin.display(description="job")
    def job_cell(self, row: Row) -> Cell:
        return link(self.job_of(row), shorten(self.job_of(row).name))

    @admin.display(description="state")
    def state_cell(self, row: Any) -> Cell:
        return state_badge(self.states(row.state), getattr(row, "reason", ""))

    @admin.display(description="reason")
    def reason_full(self, row: Any) -> str:
        return redact_text(row.reason) or NOTHING

    @admin.display(description="took")
    def took(self, row: Any) -> Cell:
        return elapsed_cell(row)


def instant_column(field: str, title: str) -> Callable[[Any, Any], Cell]:
    """Return a column that shows an instant on the clock of the job, and UTC on hover."""

    @admin.display(description=title)
    def column(page: Any, row: Any) -> Cell:
        return instant(getattr(row, field), zone_of(page.job_of(row)))

    return column


def elapsed_cell(row: Any) -> Cell:
    over = row.started_at is not None and row.finished_at is not None
    return span(row.finished_at - row.started_at if over else None)
