"""The list and the page of occurrences, with their runs, a Gantt chart and an explanation."""

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.http import HttpRequest, HttpResponse
from django.utils.html import strip_tags

from punctual.console.acting.buttons import occurrence_buttons
from punctual.console.kit.badges import state_badge
from punctual.console.kit.display import (
    Section,
    document,
    fold,
    instant,
    isolate_rtl,
    link,
    list_url,
    short_id,
    shorten,
    span,
    zone_of,
)
from punctual.console.kit.theme import AutocompleteSelectFilter, ChoicesDropdownFilter
from punctual.console.ledger.filters import InstantRangeFilter
from punctual.console.ledger.gantt import draw_gantt
from punctual.console.ledger.ledger_pages import Cell, LedgerAdmin, elapsed_cell, instant_column
from punctual.console.ledger.state_explanation import explanation_panel, lineage_rows
from punctual.jobs.clock import database_now
from punctual.jobs.redaction import secret_args
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState

MAX_CHILDREN, MAX_ATTEMPTS = 100, 1000


class OccurrenceAdmin(LedgerAdmin[Occurrence]):
    list_live = True
    id_kind, job_path, states = "occ", "job", OccurrenceState
    list_display: Any = [
        "id_cell", "state_cell", "job_cell", "scheduled", "cause", "waited", "took", "reason_cell",
    ]  # fmt: skip
    list_filter = [
        ("state", ChoicesDropdownFilter),
        ("job", AutocompleteSelectFilter),
        ("cause", ChoicesDropdownFilter),
        ("scheduled_for", InstantRangeFilter),
    ]
    linked_lookups = ["run_at__lte", "late_at__lte"]
    list_defer = ["config", "args", "report"]
    empty_text = "A job with a schedule has its next occurrence here within seconds."
    ordering = ["-scheduled_for", "-created_at"]
    change_form_outer_before_template = "punctual_console/acting/row_buttons.html"
    list_before_template = "punctual_console/acting/occurrence_list.html"
    search_help_text = "Name of a job, or id such as occ_…"
    fieldsets: ClassVar[Any] = [
        (None, {"fields": [
            ("job_cell", "full_id"), ("state_cell", "reason_full"), ("cause", "job_version"),
            ("scheduled", "start_time"), ("fired", "late"), ("started", "deadline"), ("finished", "took"),
        ]}),
        ("Details", {"classes": ["collapse"], "fields": [
            "created", "exclusive", "args_cell", "config_cell", "report_cell",
        ]}),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten_fieldsets(fieldsets)

    scheduled = instant_column("scheduled_for", "scheduled for")
    start_time = instant_column("run_at", "start time")
    late = instant_column("late_at", "counts as late after")
    created = instant_column("created_at", "planned")
    fired = instant_column("fired_at", "fired")
    started = instant_column("started_at", "started")
    deadline = instant_column("deadline_at", "deadline")
    finished = instant_column("finished_at", "finished")

    def page_title(self, row: Occurrence) -> str:
        return f"{isolate_rtl(row.job.name)}, {strip_tags(self.when(row))}"

    @admin.display(description="reason")
    def reason_cell(self, row: Occurrence) -> Cell:
        return shorten(row.reason)

    @admin.display(description="waited")
    def waited(self, row: Occurrence) -> Cell:
        """Show the time from its start time until a worker claimed its first run."""
        return span(None if row.started_at is None else max(row.started_at - row.run_at, timedelta()))

    @admin.display(description="arguments")
    def args_cell(self, row: Occurrence) -> Cell:
        return document(row.args, secret=secret_args(row.config, row.job.config))

    @admin.display(description="configuration")
    def config_cell(self, row: Occurrence) -> Cell:
        return document(row.config)

    @admin.display(description="report")
    def report_cell(self, row: Occurrence) -> Cell:
        return fold("As it was handed to the hooks", document(row.report))

    def sections(self, row: Occurrence) -> list[Section]:
        runs = list(row.runs.select_related("task").order_by("position")[:MAX_CHILDREN])
        for run in runs:
            run.occurrence = row  # saves a query per run
        why = Section("Why", content=explanation_panel(row))
        headers = ["run", "task", "state", "attempts", "started", "took", "error"]
        more = list_url("punctual_taskrun", occurrence__id__exact=row.pk)
        table = Section("Runs", headers, [_run_cells(run, row) for run in runs], more)
        return [*gantt_section(row, runs), table, *hooks_section(row), why, *lineage_section(row)]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = context.get("original")
        context["buttons"] = [] if row is None else occurrence_buttons(row, request.user)
        return super().render_change_form(request, context, *args, **kwargs)


def gantt_section(row: Occurrence, runs: list[TaskRun]) -> list[Section]:
    if row.fired_at is None:
        return []
    attempts = Attempt.objects.filter(run__in=[run.pk for run in runs]).defer("traceback", "log")
    newest = list(attempts.order_by("run", "number")[:MAX_ATTEMPTS])
    return [Section("How it went", content=draw_gantt(row, runs, newest, database_now()))]


def hooks_section(row: Occurrence) -> list[Section]:
    """List the calls of hooks: a failed one changes nothing else on this page."""
    rows = [
        [
            call.event,
            shorten(call.hook),
            call.result,
            call.tries,
            instant(call.started_at, zone_of(row.job)),
            span(call.finished_at - call.started_at if call.finished_at and call.started_at else None),
            shorten(call.error),
        ]
        for call in row.hook_calls.order_by("-event", "position")[:MAX_CHILDREN]
    ]
    headers = ["event", "hook", "result", "tries", "started", "took", "error"]
    return [Section("Hooks", headers, rows)] if rows else []


def lineage_section(row: Occurrence) -> list[Section]:
    children = row.children.defer("config", "args", "report").order_by("created_at")
    rows = lineage_rows(row, list(children[:MAX_CHILDREN]))
    return [Section("Lineage", ["", "occurrence", "cause", "scheduled for"], rows)] if rows else []


def _run_cells(run: TaskRun, occurrence: Occurrence) -> list[object]:
    return [
        link(run, short_id(run.display_id)),
        link(run.task, shorten(run.task.name)),
        state_badge(RunState(run.state), run.reason),
        run.attempts_made,
        instant(run.started_at, zone_of(occurrence.job)),
        elapsed_cell(run),
        shorten(run.error),
    ]
