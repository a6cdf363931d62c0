"""The list and the page of jobs."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.views.decorators.http import require_POST

from punctual.console.acting.buttons import job_buttons
from punctual.console.acting.targets import job_list_url
from punctual.console.definitions.definition_pages import CONDITION_LOOKS, ConditionFilter, DefinitionAdmin
from punctual.console.definitions.editor import Editor, is_editable
from punctual.console.definitions.history import attach_history, outcome_bars, p95
from punctual.console.definitions.month_calendar import month_panel
from punctual.console.definitions.schedule_hint import schedule_hint
from punctual.console.definitions.sections import (
    MAX_TASKS,
    configuration_sections,
    fires_section,
    hooks_section,
    newest_section,
    tasks_section,
    versions_section,
)
from punctual.console.definitions.task_grid import grid_panel
from punctual.console.kit.display import Section, badge, both_clocks, document, instant, span, zone_of
from punctual.console.kit.theme import ChoicesDropdownFilter, KeysetChangeList
from punctual.jobs.clock import database_now
from punctual.jobs.condition import condition
from punctual.jobs.job_schedule import schedule_summary
from punctual.jobs.models import Job, Origin, Task
from punctual.jobs.redaction import redact_text
from punctual.operations import job_actions

FIRES = 5
MAX_SCHEDULE_TEXT = 80
OWNERS = {
    Origin.CODE: "Declared in code; read-only here. Change the declaration and deploy.",
    Origin.FILE: "Applied from a file; read-only here. Change the file and apply it again.",
    Origin.POLLING: "Registered by a polling scheduler; read-only here.",
    Origin.ADMIN: "Made in the admin; changed here.",
}


class JobChangeList(KeysetChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        attach_history(self.result_list)


class JobAdmin(DefinitionAdmin):
    id_kind = "job"
    list_live = True
    list_display: Any = ["name_cell", "state", "outcomes", "p95_cell", "next_run", "schedule_cell"]
    list_filter = [ConditionFilter, ("origin", ChoicesDropdownFilter)]
    sortable_by = ["name_cell"]
    empty_text = "Declare one in code with @scheduled, apply a file, or add one here."
    ordering = ["name"]
    search_help_text = "Name, or id such as job_…"
    actions: Any = ["run_now", "pause", "resume"]
    change_form_outer_before_template = "punctual_console/acting/job_buttons.html"
    fields: ClassVar[Any] = [
        "name", ("state", "full_id"), "next_run", ("outcomes", "p95_cell"), "ownership", "schedule_in_words",
        "metadata_cell", ("enabled", "version"), "paused", ("created", "changed"),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten(fields)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        steps = Prefetch("tasks", Task.objects.current().only("job_id", "function", "retired_at"))
        return super().get_queryset(request).prefetch_related(steps)

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return request.user.has_perm("punctual.add_job")

    @admin.display(description="state")
    def state(self, job: Job) -> SafeString:
        word = condition(job, job.tasks.all())
        tone, shape, meaning = CONDITION_LOOKS[word]
        return badge(word.label, tone, shape, title=meaning)

    @admin.display(description="last 20")
    def outcomes(self, job: Any) -> SafeString | str:
        return outcome_bars(job.ended)

    @admin.display(description="p95")
    def p95_cell(self, job: Any) -> SafeString | str:
        return span(p95(job.ended))

    @admin.display(description="schedule")
    def schedule_cell(self, job: Any) -> SafeString:
        """Show the schedule in words, and its text on hover."""
        summary = schedule_summary(job, job.created_at, 0)
        words = Truncator(summary.words or job.schedule).chars(MAX_SCHEDULE_TEXT)
        return format_html('<span title="{}">{}</span>', job.schedule, words)

    @admin.display(description="next run")
    def next_run(self, job: Any) -> SafeString | str:
        if job.problem:
            return badge("not planned", "bad", "alert", title=job.problem)
        return both_clocks(job.next_run_at, zone_of(job))

    @admin.display(description="schedule")
    def schedule_in_words(self, job: Job) -> SafeString:
        summary = schedule_summary(job, job.created_at, 0)
        words = summary.words or summary.problem
        text = '<code style="overflow-wrap: anywhere">{}</code><span class="block text-subtle">{}</span>'
        return format_html(text, job.schedule, words)

    @admin.display(description="defined by")
    def ownership(self, job: Job) -> str:
        return OWNERS[Origin(job.origin)]

    @admin.display(description="metadata")
    def metadata_cell(self, job: Job) -> SafeString | str:
        return document(job.metadata)

    @admin.display(description="paused")
    def paused(self, job: Job) -> SafeString | str:
        since = instant(job.paused_at, zone_of(job))
        if not job.paused or job.paused_until is None:
            return since
        until = instant(job.paused_until, zone_of(job))
        return format_html("{} until {}, backlog: {}", since, until, job.pause_backlog or "none")

    def sections_for(self, request: HttpRequest, row: Job) -> list[Section]:
        """Show what happened first, then how the job is defined."""
        now, grid = database_now(), grid_panel(row)
        tasks = list(Task.objects.filter(job=row).order_by("position")[:MAX_TASKS])
        return [
            *([Section("Tasks by newest occurrences", content=grid)] if grid else []),
            newest_section(row),
            Section("Calendar", content=month_panel(row, request.GET.get("month", ""), now)),
            tasks_section(row, tasks),
            *hooks_section(row),
            fires_section(schedule_summary(row, now, FIRES), zone_of(row)),
            *configuration_sections(row, tasks),
            versions_section(row),
        ]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[KeysetChangeList]:
        return JobChangeList

    def has_trigger_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(job_actions.RUN.permission)

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(job_actions.PAUSE.permission)

    @admin.action(description="Run now…", permissions=["trigger"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return HttpResponseRedirect(job_list_url("run", queryset.values_list("pk", flat=True)))

    @admin.action(description="Pause…", permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return HttpResponseRedirect(job_list_url("pause", queryset.values_list("pk", flat=True)))

    @admin.action(description="Resume, without the backlog…", permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return HttpResponseRedirect(job_list_url("resume", queryset.values_list("pk", flat=True)))

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Job | None:
        job: Job | None = super().get_object(request, *args, **kwargs)
        if job is not None:
            attach_history([job])
        return job

    def get_urls(self) -> list[URLPattern]:
        door = self.admin_site.admin_view
        return [
            path("<uuid:job_id>/edit/", door(self.edit_view), name="punctual_job_edit"),
            path("schedule/", door(require_POST(self.schedule_view)), name="punctual_job_schedule"),
            *super().get_urls(),
        ]

    def edit_view(self, request: HttpRequest, job_id: UUID) -> HttpResponse:
        job = get_object_or_404(Job, pk=job_id)
        if not is_editable(request, job):
            raise PermissionDenied
        return Editor(self, request, job).respond()

    def schedule_view(self, request: HttpRequest) -> HttpResponse:
        if not (request.user.has_perm("punctual.change_job") or request.user.has_perm("punctual.add_job")):
            raise PermissionDenied
        return schedule_hint(request)

    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return Editor(self, request).respond()

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        job = context.get("original")
        if job is not None:
            context["buttons"] = job_buttons(job, request.user)
            context["editable"] = is_editable(request, job)
            context["problem"] = redact_text(job.problem)
        return super().render_change_form(request, context, *args, **kwargs)
