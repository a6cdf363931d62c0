"""One step of a job, and where its runs are."""

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.utils.safestring import SafeString

from jobs.admin.definition import DefinitionAdmin, function_shown, retired
from jobs.display import anchor, link, list_url, shortened
from jobs.models import Task
from jobs.theme import AutocompleteSelectFilter


@admin.register(Task)
class TaskAdmin(DefinitionAdmin):
    id_kind = "task"
    list_display: Any = ["name_shown", "job_shown", "function_shown", "place", "retired"]
    list_filter = [("job", AutocompleteSelectFilter)]
    list_select_related = ["job"]
    sortable_by: ClassVar[Any] = []
    empty_words = "Tasks are the steps of a job."
    ordering = ["job__name", "position"]
    search_fields = ["name", "job__name"]
    search_help_text = "Name of the task or its job, or id such as task_…"
    fields: ClassVar[Any] = [
        "name", ("job_shown", "full_id"), ("function_full", "place"), "config_shown",
        ("runs", "retired"), ("created", "changed"),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten(fields)

    @admin.display(description="job")
    def job_shown(self, task: Task) -> SafeString:
        return link(task.job, shortened(task.job.name))

    @admin.display(description="function")
    def function_shown(self, task: Task) -> SafeString:
        return function_shown(task)

    @admin.display(description="function")
    def function_full(self, task: Task) -> SafeString:
        return function_shown(task, len(task.function))

    @admin.display(description="order")
    def place(self, task: Task) -> int:
        return task.position + 1

    @admin.display(description="retired")
    def retired(self, task: Task) -> SafeString | str:
        return retired(task)

    @admin.display(description="runs")
    def runs(self, task: Task) -> SafeString:
        return anchor(list_url("occurrences_taskrun", task__id__exact=task.pk), "Runs of this task")
