"""The list and the page of tasks."""

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.utils.safestring import SafeString

from punctual.console.definitions.definition_pages import DefinitionAdmin, function_cell, retired_cell
from punctual.console.kit.display import anchor, link, list_url, shorten
from punctual.console.kit.theme import AutocompleteSelectFilter
from punctual.jobs.models import Task


class TaskAdmin(DefinitionAdmin):
    id_kind = "task"
    list_display: Any = ["name_cell", "job_cell", "function_cell", "place", "retired"]
    list_filter = [("job", AutocompleteSelectFilter)]
    list_select_related = ["job"]
    sortable_by: ClassVar[Any] = []
    empty_text = "Tasks are the steps of a job."
    ordering = ["job__name", "position"]
    search_fields = ["name", "job__name"]
    search_help_text = "Name of the task or its job, or id such as task_…"
    fields: ClassVar[Any] = [
        "name", ("job_cell", "full_id"), ("function_full", "place"), "config_cell",
        ("runs", "retired"), ("created", "changed"),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten(fields)

    @admin.display(description="job")
    def job_cell(self, task: Task) -> SafeString:
        return link(task.job, shorten(task.job.name))

    @admin.display(description="function")
    def function_cell(self, task: Task) -> SafeString:
        return function_cell(task)

    @admin.display(description="function")
    def function_full(self, task: Task) -> SafeString:
        return function_cell(task, len(task.function))

    @admin.display(description="order")
    def place(self, task: Task) -> int:
        return task.position + 1

    @admin.display(description="retired")
    def retired(self, task: Task) -> SafeString | str:
        return retired_cell(task)

    @admin.display(description="runs")
    def runs(self, task: Task) -> SafeString:
        return anchor(list_url("punctual_taskrun", task__id__exact=task.pk), "Runs of this task")
