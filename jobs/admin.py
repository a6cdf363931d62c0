"""Definitions in the admin: jobs, their tasks, and the buttons that act on a job.

Links to the ledger go by address: what became of a job is shown by the packages to the right.
"""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from jobs.buttons import BUTTONS, PAUSE, RESUME, RUN_NOW, Button, offered
from jobs.clock import database_now
from jobs.condition import Condition, condition, in_condition, unresolved
from jobs.display import (
    NOTHING,
    Section,
    anchor,
    badge,
    document,
    instant,
    link,
    list_url,
    shortened,
    zone_of,
)
from jobs.errors import PunctualError
from jobs.forms import JobForm
from jobs.ids import parsed
from jobs.models import Job, Origin, Task
from jobs.theme import AutocompleteSelectFilter, ChoicesDropdownFilter, DropdownFilter, PlainAdmin

LOOKS = {
    Condition.ACTIVE: ("good", "play", "Fires on its schedule."),
    Condition.PAUSED: ("warn", "bars", "Its instants are recorded as skipped until it is resumed."),
    Condition.DISABLED: ("calm", "slash", "Switched off in its definition."),
    Condition.UNRESOLVED: (
        "bad",
        "alert",
        "No code registers one of its functions: it cannot run.",
    ),
    Condition.REMOVED: ("calm", "cross", "No longer registered; kept for its history."),
}
OWNERS = {
    Origin.CODE: "Declared in code; read-only here. Change the declaration and deploy.",
    Origin.FILE: "Applied from a file; read-only here. Change the file and apply it again.",
    Origin.POLLING: "Registered by a polling scheduler; read-only here.",
    Origin.ADMIN: "Made in the admin; changed here.",
}
MOST_TASKS = 100


class ConditionFilter(DropdownFilter):  # type: ignore[misc]  # the theme ships no types
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return list(Condition.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        wanted = self.value()
        return queryset.filter(in_condition(wanted)) if wanted in Condition.values else queryset


class DefinitionAdmin(PlainAdmin[Any]):
    """Found by name or by id, with or without its prefix."""

    id_kind: str
    search_fields = ["name"]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        try:
            return queryset.filter(pk=parsed(self.id_kind, search_term.strip())), False
        except ValueError:
            return super().get_search_results(request, queryset, search_term)

    @admin.display(description="name", ordering="name")
    def name_shown(self, row: Job | Task) -> SafeString:
        return shortened(row.name)

    @admin.display(description="id")
    def full_id(self, row: Job | Task) -> str:
        return row.shown_id

    @admin.display(description="configuration")
    def config_shown(self, row: Job | Task) -> SafeString | str:
        return document(row.config)

    @admin.display(description="created")
    def created(self, row: Job | Task) -> SafeString | str:
        return instant(row.created_at)

    @admin.display(description="changed")
    def changed(self, row: Job | Task) -> SafeString | str:
        return instant(row.updated_at)


@admin.register(Job)
class JobAdmin(DefinitionAdmin):
    id_kind = "job"
    form = JobForm
    list_display: Any = ["name_shown", "state", "schedule_shown", "origin_shown"]
    list_filter = [ConditionFilter, ("origin", ChoicesDropdownFilter)]
    sortable_by = ["name_shown"]
    ordering = ["name"]
    search_help_text = "Name, or id such as job_…"
    actions = ["run_now", "pause", "resume"]
    change_form_outer_before_template = "jobs/job_buttons.html"
    fields: ClassVar[Any] = [
        "name", ("state", "full_id"), "ownership", "schedule", "config", "metadata",
        ("enabled", "paused"), ("version", "changed"), "created",
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = [
        "name", "state", "full_id", "ownership", "paused", "version", "created", "changed",
    ]  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        steps = Prefetch("tasks", Task.objects.current().only("job_id", "function", "retired_at"))
        return super().get_queryset(request).prefetch_related(steps)

    def has_change_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        """A definition has one owner; only what was made here is changed here."""
        mine = obj is None or obj.origin == Origin.ADMIN
        return mine and super().has_change_permission(request, obj)

    def has_trigger_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(RUN_NOW.permission)

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(PAUSE.permission)

    def save_model(self, request: HttpRequest, obj: Job, form: Any, change: Any) -> None:
        """Only the fields of the form, so that a pause made meanwhile is not undone."""
        obj.version += 1
        obj.updated_at = database_now()
        obj.save(update_fields=[*form.changed_data, "version", "updated_at"])

    @admin.display(description="state")
    def state(self, job: Job) -> SafeString:
        word = condition(job, job.tasks.all())
        tone, shape, meaning = LOOKS[word]
        return badge(word.label, tone, shape, title=meaning)

    @admin.display(description="schedule")
    def schedule_shown(self, job: Job) -> SafeString:
        return format_html("<code>{}</code>", shortened(job.schedule))

    @admin.display(description="origin")
    def origin_shown(self, job: Job) -> str:
        return job.origin

    @admin.display(description="defined by")
    def ownership(self, job: Job) -> str:
        return OWNERS[Origin(job.origin)]

    @admin.display(description="paused")
    def paused(self, job: Job) -> SafeString | str:
        return instant(job.paused_at, zone_of(job))

    def sections(self, row: Job) -> list[Section]:
        tasks = Task.objects.filter(job=row).order_by("position")[:MOST_TASKS]
        rows = [
            [link(task, shortened(task.name)), function_shown(task), task.position, retired(task)]
            for task in tasks
        ]
        more = list_url("jobs_task", job__id__exact=row.pk)
        return [Section("Tasks", ["task", "function", "position", "retired"], rows, more)]

    @admin.action(description=RUN_NOW.label, permissions=["trigger"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._press_each(request, RUN_NOW, queryset)

    @admin.action(description=PAUSE.label, permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._press_each(request, PAUSE, queryset)

    @admin.action(description=RESUME.label, permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._press_each(request, RESUME, queryset)

    def _press_each(self, request: HttpRequest, button: Button, jobs: QuerySet[Job]) -> None:
        for job in jobs:
            self._press(request, button, job)

    def _press(self, request: HttpRequest, button: Button, job: Job) -> None:
        if job.removed:
            self.message_user(request, f"“{job.name}” is no longer registered.", messages.ERROR)
            return
        try:
            pressed = button.press(job)
        except PunctualError as error:
            self.message_user(request, f"“{job.name}”: {error}", messages.ERROR)
            return
        if pressed.log:
            self.log_change(request, job, pressed.log)
        level = messages.SUCCESS if pressed.log else messages.INFO
        self.message_user(request, pressed.message, level)

    def get_urls(self) -> list[URLPattern]:
        press = self.admin_site.admin_view(require_POST(self.press_view))
        return [
            path("<uuid:job_id>/press/<slug:name>/", press, name="jobs_job_press"),
            *super().get_urls(),
        ]

    def press_view(self, request: HttpRequest, job_id: UUID, name: str) -> HttpResponse:
        job, button = get_object_or_404(Job, pk=job_id), BUTTONS.get(name)
        if button is None:
            raise Http404(f"no button {name!r}")
        if not request.user.has_perm(button.permission):
            raise PermissionDenied
        self._press(request, button, job)
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job_id]))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        job = context.get("original")
        buttons = [] if job is None else offered(job)
        context["buttons"] = [one for one in buttons if request.user.has_perm(one.permission)]
        return super().render_change_form(request, context, *args, **kwargs)


@admin.register(Task)
class TaskAdmin(DefinitionAdmin):
    id_kind = "task"
    list_display: Any = ["name_shown", "job_shown", "function_shown", "position", "retired"]
    list_filter = [("job", AutocompleteSelectFilter)]
    list_select_related = ["job"]
    sortable_by: ClassVar[Any] = []
    ordering = ["job__name", "position"]
    search_fields = ["name", "job__name"]
    search_help_text = "Name of the task or its job, or id such as task_…"
    fields: ClassVar[Any] = [
        "name", ("job_shown", "full_id"), ("function_shown", "position"), "config_shown",
        ("runs", "retired"), ("created", "changed"),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten(fields)

    def has_change_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

    @admin.display(description="job")
    def job_shown(self, task: Task) -> SafeString:
        return link(task.job, shortened(task.job.name))

    @admin.display(description="function")
    def function_shown(self, task: Task) -> SafeString:
        return function_shown(task)

    @admin.display(description="retired")
    def retired(self, task: Task) -> SafeString | str:
        return retired(task)

    @admin.display(description="runs")
    def runs(self, task: Task) -> SafeString:
        return anchor(list_url("occurrences_taskrun", task__id__exact=task.pk), "Runs of this task")


def function_shown(task: Task) -> SafeString:
    name = format_html("<code>{}</code>", shortened(task.function))
    if not unresolved(task):
        return name
    tone, shape, _ = LOOKS[Condition.UNRESOLVED]
    return format_html("{} {}", name, badge("unresolved", tone, shape, title="No code registers it."))


def retired(task: Task) -> SafeString | str:
    return NOTHING if task.retired_at is None else instant(task.retired_at)
