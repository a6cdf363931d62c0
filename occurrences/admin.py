"""The ledger in the admin: occurrences → runs → attempts, and back up. Only a pool's size is written here."""

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten, flatten_fieldsets
from django.db.models import Q
from django.http import HttpRequest
from django.utils.html import strip_tags

from jobs.between import BetweenFilter
from jobs.clock import database_now
from jobs.display import (
    Section,
    apart,
    document,
    folded,
    instant,
    link,
    list_url,
    preformatted,
    short_id,
    shortened,
    span,
    zone_of,
)
from jobs.secrecy import secret_args
from jobs.theme import AutocompleteSelectFilter, ChoicesDropdownFilter
from occurrences.badges import state_badge
from occurrences.filters import AttemptStateFilter, RunStateFilter
from occurrences.gantt import gantt
from occurrences.models import Attempt, Occurrence, TaskRun
from occurrences.pool_admin import PoolAdmin
from occurrences.readonly import LedgerAdmin, Shown, moment, took
from occurrences.states import AttemptState, OccurrenceState, RunState
from occurrences.why import lineage, why_panel

__all__ = ["AttemptAdmin", "OccurrenceAdmin", "PoolAdmin", "TaskRunAdmin"]

MOST_CHILDREN, MOST_ATTEMPTS = 100, 1000


@admin.register(Occurrence)
class OccurrenceAdmin(LedgerAdmin[Occurrence]):
    list_live = True
    id_kind, job_path, states = "occ", "job", OccurrenceState
    list_display: Any = [
        "id_shown", "state_shown", "job_shown", "scheduled", "cause", "waited", "took", "reason_shown",
    ]  # fmt: skip
    list_filter = [
        ("state", ChoicesDropdownFilter),
        ("job", AutocompleteSelectFilter),
        ("cause", ChoicesDropdownFilter),
        ("scheduled_for", BetweenFilter),
    ]
    list_defer = ["config", "args", "report"]
    empty_words = "A job with a schedule has its next occurrence here within seconds."
    ordering = ["-scheduled_for"]
    search_help_text = "Name of a job, or id such as occ_…"
    fieldsets: ClassVar[Any] = [
        (None, {"fields": [
            ("job_shown", "full_id"), ("state_shown", "reason_full"), ("cause", "job_version"),
            ("scheduled", "chosen"), ("fired", "late"), ("started", "deadline"), ("finished", "took"),
        ]}),
        ("Details", {"classes": ["collapse"], "fields": [
            "created", "exclusive", "args_shown", "config_shown", "report_shown",
        ]}),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten_fieldsets(fieldsets)

    scheduled = moment("scheduled_for", "scheduled for")
    chosen = moment("run_at", "chosen time")
    late = moment("late_at", "late from")
    created = moment("created_at", "planned")
    fired = moment("fired_at", "fired")
    started = moment("started_at", "started")
    deadline = moment("deadline_at", "deadline")
    finished = moment("finished_at", "finished")

    def title_of(self, row: Occurrence) -> str:
        return f"{apart(row.job.name)}, {strip_tags(self.when(row))}"

    @admin.display(description="reason")
    def reason_shown(self, row: Occurrence) -> Shown:
        return shortened(row.reason)

    @admin.display(description="waited")
    def waited(self, row: Occurrence) -> Shown:
        """From its chosen time until a worker came."""
        return span(None if row.started_at is None else max(row.started_at - row.run_at, timedelta()))

    @admin.display(description="arguments")
    def args_shown(self, row: Occurrence) -> Shown:
        return document(row.args, secret=secret_args(row.config, row.job.config))

    @admin.display(description="configuration")
    def config_shown(self, row: Occurrence) -> Shown:
        return document(row.config)

    @admin.display(description="report")
    def report_shown(self, row: Occurrence) -> Shown:
        return folded("As it was handed to the hooks", document(row.report))

    def sections(self, row: Occurrence) -> list[Section]:
        runs = list(row.runs.select_related("task").order_by("position")[:MOST_CHILDREN])
        for run in runs:
            run.occurrence = row  # the same; spares a query a run
        why = Section("Why", content=why_panel(row))
        headers = ["run", "task", "state", "attempts", "started", "took", "error"]
        more = list_url("occurrences_taskrun", occurrence__id__exact=row.pk)
        table = Section("Runs", headers, [_run_cells(run, row) for run in runs], more)
        return [*drawn_section(row, runs), table, why, *family_section(row)]


def drawn_section(row: Occurrence, runs: list[TaskRun]) -> list[Section]:
    if row.fired_at is None:
        return []
    attempts = Attempt.objects.filter(run__in=[run.pk for run in runs]).defer("traceback", "log")
    shown = list(attempts.order_by("run", "number")[:MOST_ATTEMPTS])
    return [Section("How it went", content=gantt(row, runs, shown, database_now()))]


def family_section(row: Occurrence) -> list[Section]:
    children = row.children.defer("config", "args", "report").order_by("created_at")
    rows = lineage(row, list(children[:MOST_CHILDREN]))
    return [Section("Lineage", ["", "occurrence", "cause", "scheduled for"], rows)] if rows else []


@admin.register(TaskRun)
class TaskRunAdmin(LedgerAdmin[TaskRun]):
    list_live = True
    id_kind, job_path, states = "run", "occurrence__job", RunState
    list_display: Any = [
        "id_shown", "state_shown", "job_shown", "task_shown", "occurrence_shown", "attempts_made",
        "took", "error_shown",
    ]  # fmt: skip
    list_filter = [
        ("state", RunStateFilter),
        ("occurrence__job", AutocompleteSelectFilter),
        ("occurrence__scheduled_for", BetweenFilter),
    ]
    related = ["task"]
    list_without = Q(occurrence__state=OccurrenceState.PENDING)  # has none; saves a look-up for each
    empty_words = "When an occurrence is fired, each task of its job gets a run."
    list_defer = ["policy", "occurrence__config", "occurrence__args", "occurrence__report"]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """`fingerprint` leads here from the page of dead letters."""
        return lookup == "fingerprint__exact" or super().lookup_allowed(lookup, value, request)

    ordering = ["-occurrence__scheduled_for", "occurrence_id", "position"]
    search_help_text = "Name of a job, or id such as run_…"
    fieldsets: ClassVar[Any] = [
        (None, {"fields": [
            ("task_shown", "full_id"), ("job_shown", "occurrence_shown"), ("state_shown", "reason_full"),
            ("attempts_made", "place"), ("available", "dispatched"), ("started", "finished"),
            ("took", "claimed_by"), ("lease", "heartbeat"), "error_full",
        ]}),
        ("Details", {"classes": ["collapse"], "fields": ["policy_shown"]}),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten_fieldsets(fieldsets)

    available = moment("available_at", "may start from")
    dispatched = moment("dispatched_at", "sent")
    lease = moment("lease_until", "lease until")
    heartbeat = moment("heartbeat_at", "last heartbeat")
    started = moment("started_at", "started")
    finished = moment("finished_at", "finished")

    def title_of(self, row: TaskRun) -> str:
        return f"{row.task.name} of {row.occurrence.job.name}"

    @admin.display(description="order")
    def place(self, row: TaskRun) -> int:
        return row.position + 1

    @admin.display(description="task")
    def task_shown(self, row: TaskRun) -> Shown:
        return link(row.task, shortened(row.task.name))

    @admin.display(description="occurrence")
    def occurrence_shown(self, row: TaskRun) -> Shown:
        return link(row.occurrence, self.when(row.occurrence))

    @admin.display(description="error")
    def error_shown(self, row: TaskRun) -> Shown:
        return shortened(row.error)

    @admin.display(description="error")
    def error_full(self, row: TaskRun) -> Shown:
        return preformatted(row.error)

    @admin.display(description="policy")
    def policy_shown(self, row: TaskRun) -> Shown:
        return document(row.policy)

    def sections(self, row: TaskRun) -> list[Section]:
        attempts = row.attempts.order_by("number").defer("traceback")[:MOST_CHILDREN]
        headers = ["id", "attempt", "state", "worker", "started", "took", "error"]
        more = list_url("occurrences_attempt", run__id__exact=row.pk)
        return [Section("Attempts", headers, [_attempt_cells(one, row) for one in attempts], more)]


@admin.register(Attempt)
class AttemptAdmin(LedgerAdmin[Attempt]):
    list_live = True
    id_kind, job_path, states = "attempt", "run__occurrence__job", AttemptState
    list_display: Any = [
        "id_shown", "state_shown", "job_shown", "task_shown", "number_shown", "worker_shown", "started",
        "took", "error_shown",
    ]  # fmt: skip
    list_filter = [
        ("state", AttemptStateFilter),
        ("run__occurrence__job", AutocompleteSelectFilter),
        ("run__occurrence__scheduled_for", BetweenFilter),
    ]
    related = ["run__task"]
    empty_words = "Each time a worker tries a run, the attempt is recorded here."
    list_without = Q(run__occurrence__state=OccurrenceState.PENDING)
    list_defer = [
        "traceback", "log", "run__policy", "run__error", "run__occurrence__config",
        "run__occurrence__args", "run__occurrence__report",
    ]  # fmt: skip
    ordering = ["-run__occurrence__scheduled_for", "run_id", "number"]
    search_help_text = "Name of a job, or id such as attempt_…"
    fields: ClassVar[Any] = [
        ("task_shown", "full_id"), ("job_shown", "occurrence_shown"), ("run_shown", "number_shown"),
        ("state_shown", "worker"), ("started", "finished"), ("took", "error_type"),
        ("lease", "heartbeat"), "error_full", "log_shown", "traceback_shown",
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten(fields)

    started = moment("started_at", "started")
    finished = moment("finished_at", "finished")
    lease = moment("lease_until", "lease until")
    heartbeat = moment("heartbeat_at", "last heartbeat")

    @admin.display(description="occurrence")
    def occurrence_shown(self, row: Attempt) -> Shown:
        return link(row.run.occurrence, self.when(row.run.occurrence))

    @admin.display(description="task")
    def task_shown(self, row: Attempt) -> Shown:
        return link(row.run.task, shortened(row.run.task.name))

    @admin.display(description="attempt")
    def number_shown(self, row: Attempt) -> int:
        return row.number + 1

    def title_of(self, row: Attempt) -> str:
        return f"Attempt {row.number + 1} at {row.run.task.name}"

    @admin.display(description="run")
    def run_shown(self, row: Attempt) -> Shown:
        return link(row.run, short_id(row.run.shown_id))

    @admin.display(description="worker")
    def worker_shown(self, row: Attempt) -> Shown:
        return shortened(row.worker)

    @admin.display(description="error")
    def error_shown(self, row: Attempt) -> Shown:
        return shortened(": ".join(part for part in (row.error_type, row.error) if part))

    @admin.display(description="error")
    def error_full(self, row: Attempt) -> Shown:
        return preformatted(row.error)

    @admin.display(description="traceback")
    def traceback_shown(self, row: Attempt) -> Shown:
        return folded("Show the traceback", preformatted(row.traceback))

    @admin.display(description="last lines logged")
    def log_shown(self, row: Attempt) -> Shown:
        return preformatted(row.log)


def _run_cells(run: TaskRun, occurrence: Occurrence) -> list[object]:
    return [
        link(run, short_id(run.shown_id)),
        link(run.task, shortened(run.task.name)),
        state_badge(RunState(run.state), run.reason),
        run.attempts_made,
        instant(run.started_at, zone_of(occurrence.job)),
        took(run),
        shortened(run.error),
    ]


def _attempt_cells(attempt: Attempt, run: TaskRun) -> list[object]:
    return [
        link(attempt, short_id(attempt.shown_id)),
        attempt.number + 1,
        state_badge(AttemptState(attempt.state)),
        attempt.worker,
        instant(attempt.started_at, zone_of(run.occurrence.job)),
        took(attempt),
        shortened(attempt.error or attempt.error_type),
    ]
