"""The list and the page of attempts, with error, log tail and traceback."""

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.db.models import Q

from punctual.console.kit.display import (
    fold,
    link,
    preformat,
    short_id,
    shorten,
)
from punctual.console.kit.theme import AutocompleteSelectFilter
from punctual.console.ledger.filters import AttemptStateFilter, InstantRangeFilter
from punctual.console.ledger.ledger_pages import Cell, LedgerAdmin, instant_column
from punctual.occurrences.models import Attempt
from punctual.occurrences.states import AttemptState, OccurrenceState


class AttemptAdmin(LedgerAdmin[Attempt]):
    list_live = True
    id_kind, job_path, states = "attempt", "run__occurrence__job", AttemptState
    list_display: Any = [
        "id_cell", "state_cell", "job_cell", "task_cell", "number_cell", "worker_cell", "started",
        "took", "error_cell",
    ]  # fmt: skip
    list_filter = [
        ("state", AttemptStateFilter),
        ("run__occurrence__job", AutocompleteSelectFilter),
        ("run__occurrence__scheduled_for", InstantRangeFilter),
    ]
    linked_lookups = ["run__id__exact"]
    related = ["run__task"]
    empty_text = "Each time a worker tries a run, the attempt is recorded here."
    list_exclude = Q(run__occurrence__state=OccurrenceState.PENDING)
    list_defer = [
        "traceback", "log", "run__policy", "run__error", "run__occurrence__config",
        "run__occurrence__args", "run__occurrence__report",
    ]  # fmt: skip
    ordering = ["-run__occurrence__scheduled_for", "run_id", "number"]
    search_help_text = "Name of a job, or id such as attempt_…"
    fields: ClassVar[Any] = [
        ("task_cell", "full_id"), ("job_cell", "occurrence_cell"), ("run_cell", "number_cell"),
        ("state_cell", "worker"), ("started", "finished"), ("took", "error_type"),
        ("lease", "heartbeat"), "error_full", "log_cell", "traceback_cell",
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten(fields)

    started = instant_column("started_at", "started")
    finished = instant_column("finished_at", "finished")
    lease = instant_column("lease_until", "lease until")
    heartbeat = instant_column("heartbeat_at", "last heartbeat")

    @admin.display(description="occurrence")
    def occurrence_cell(self, row: Attempt) -> Cell:
        return link(row.run.occurrence, self.when(row.run.occurrence))

    @admin.display(description="task")
    def task_cell(self, row: Attempt) -> Cell:
        return link(row.run.task, shorten(row.run.task.name))

    @admin.display(description="attempt")
    def number_cell(self, row: Attempt) -> int:
        return row.number + 1

    def page_title(self, row: Attempt) -> str:
        return f"Attempt {row.number + 1} at {row.run.task.name}"

    @admin.display(description="run")
    def run_cell(self, row: Attempt) -> Cell:
        return link(row.run, short_id(row.run.display_id))

    @admin.display(description="worker")
    def worker_cell(self, row: Attempt) -> Cell:
        return shorten(row.worker)

    @admin.display(description="error")
    def error_cell(self, row: Attempt) -> Cell:
        return shorten(": ".join(part for part in (row.error_type, row.error) if part))

    @admin.display(description="error")
    def error_full(self, row: Attempt) -> Cell:
        return preformat(row.error)

    @admin.display(description="traceback")
    def traceback_cell(self, row: Attempt) -> Cell:
        return fold("Show the traceback", preformat(row.traceback))

    @admin.display(description="last lines logged")
    def log_cell(self, row: Attempt) -> Cell:
        return preformat(row.log)
