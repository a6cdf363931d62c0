"""The list and the page of task runs, with their attempts and the actions on dead letters."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from punctual.console.acting.buttons import dead_letter_buttons, dead_letter_url
from punctual.console.kit.badges import state_badge
from punctual.console.kit.display import (
    Section,
    document,
    instant,
    link,
    list_url,
    preformat,
    short_id,
    shorten,
    zone_of,
)
from punctual.console.kit.theme import AutocompleteSelectFilter
from punctual.console.ledger.filters import InstantRangeFilter, RunStateFilter
from punctual.console.ledger.ledger_pages import Cell, LedgerAdmin, elapsed_cell, instant_column
from punctual.occurrences.models import Attempt, TaskRun
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from punctual.operations import dead_letter_actions
from punctual.recovery.dead_letters import DeadLetterFilter

MAX_ATTEMPTS = 100


class TaskRunAdmin(LedgerAdmin[TaskRun]):
    list_live = True
    id_kind, job_path, states = "run", "occurrence__job", RunState
    list_display: Any = [
        "id_cell", "state_cell", "job_cell", "task_cell", "occurrence_cell", "attempts_made",
        "took", "error_cell",
    ]  # fmt: skip
    list_filter = [
        ("state", RunStateFilter),
        ("occurrence__job", AutocompleteSelectFilter),
        ("occurrence__scheduled_for", InstantRangeFilter),
    ]
    related = ["task"]
    list_exclude = Q(
        occurrence__state=OccurrenceState.PENDING
    )  # they have no runs; the condition saves a lookup for each
    empty_text = "When an occurrence is fired, each task of its job gets a run."
    list_defer = ["policy", "occurrence__config", "occurrence__args", "occurrence__report"]
    linked_lookups = ["fingerprint__exact", "task__id__exact", "occurrence__id__exact"]
    ordering = ["-occurrence__scheduled_for", "occurrence_id", "position"]
    search_help_text = "Name of a job, or id such as run_…"
    change_form_outer_before_template = "punctual_console/acting/row_buttons.html"
    actions: Any = ["replay", "purge"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": [
            ("task_cell", "full_id"), ("job_cell", "occurrence_cell"), ("state_cell", "reason_full"),
            ("attempts_made", "place"), ("available", "dispatched"), ("started", "finished"),
            ("took", "claimed_by"), ("lease", "heartbeat"), "error_full",
        ]}),
        ("Details", {"classes": ["collapse"], "fields": ["policy_cell"]}),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten_fieldsets(fieldsets)

    available = instant_column("available_at", "not before")
    dispatched = instant_column("dispatched_at", "sent")
    lease = instant_column("lease_until", "lease until")
    heartbeat = instant_column("heartbeat_at", "last heartbeat")
    started = instant_column("started_at", "started")
    finished = instant_column("finished_at", "finished")

    def page_title(self, row: TaskRun) -> str:
        return f"{row.task.name} of {row.occurrence.job.name}"

    @admin.display(description="order")
    def place(self, row: TaskRun) -> int:
        return row.position + 1

    @admin.display(description="task")
    def task_cell(self, row: TaskRun) -> Cell:
        return link(row.task, shorten(row.task.name))

    @admin.display(description="occurrence")
    def occurrence_cell(self, row: TaskRun) -> Cell:
        return link(row.occurrence, self.when(row.occurrence))

    @admin.display(description="error")
    def error_cell(self, row: TaskRun) -> Cell:
        return shorten(row.error)

    @admin.display(description="error")
    def error_full(self, row: TaskRun) -> Cell:
        return preformat(row.error)

    @admin.display(description="policy")
    def policy_cell(self, row: TaskRun) -> Cell:
        return document(row.policy)

    def sections(self, row: TaskRun) -> list[Section]:
        attempts = row.attempts.order_by("number").defer("traceback")[:MAX_ATTEMPTS]
        headers = ["id", "attempt", "state", "worker", "started", "took", "error"]
        more = list_url("punctual_attempt", run__id__exact=row.pk)
        return [Section("Attempts", headers, [_attempt_cells(one, row) for one in attempts], more)]

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(dead_letter_actions.PURGE.permission)

    @admin.action(description="Replay dead letters…", permissions=["resolve"])
    def replay(self, request: HttpRequest, queryset: QuerySet[TaskRun]) -> HttpResponse:
        return _redirect("replay", queryset)

    @admin.action(description="Purge dead letters…", permissions=["resolve"])
    def purge(self, request: HttpRequest, queryset: QuerySet[TaskRun]) -> HttpResponse:
        return _redirect("purge", queryset)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = context.get("original")
        if row is not None and row.state == RunState.DLQ and row.resolved_at is None:
            which = DeadLetterFilter(ids=(row.pk,))
            context["buttons"] = dead_letter_buttons(which, request.user)
        return super().render_change_form(request, context, *args, **kwargs)


def _redirect(action: str, runs: QuerySet[TaskRun]) -> HttpResponse:
    which = DeadLetterFilter(ids=tuple(runs.values_list("pk", flat=True)))
    return HttpResponseRedirect(dead_letter_url(action, which))


def _attempt_cells(attempt: Attempt, run: TaskRun) -> list[object]:
    return [
        link(attempt, short_id(attempt.display_id)),
        attempt.number + 1,
        state_badge(AttemptState(attempt.state)),
        attempt.worker,
        instant(attempt.started_at, zone_of(run.occurrence.job)),
        elapsed_cell(attempt),
        shorten(attempt.error or attempt.error_type),
    ]
