"""The list and the page of jobs: how each stands, when it fires, with what it runs, what may be done."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST, require_safe

from jobs.admin.definition import LOOKS, ConditionFilter, DefinitionAdmin
from jobs.admin.editor import Editor, editable
from jobs.admin.live import live
from jobs.admin.pressing import ask_backlog, press
from jobs.admin.sections import (
    MOST_TASKS,
    configuration_sections,
    fires_section,
    tasks_section,
    versions_section,
)
from jobs.buttons import BUTTONS, RESUME, offered
from jobs.clock import database_now
from jobs.condition import condition
from jobs.display import Section, badge, document, instant, shortened, zone_of
from jobs.models import Job, Origin, Task
from jobs.theme import ChoicesDropdownFilter
from jobs.timing import timing

FIRES = 5
OWNERS = {
    Origin.CODE: "Declared in code; read-only here. Change the declaration and deploy.",
    Origin.FILE: "Applied from a file; read-only here. Change the file and apply it again.",
    Origin.POLLING: "Registered by a polling scheduler; read-only here.",
    Origin.ADMIN: "Made in the admin; changed here.",
}


@admin.register(Job)
class JobAdmin(DefinitionAdmin):
    id_kind = "job"
    list_live = True
    list_display: Any = ["name_shown", "state", "schedule_shown", "origin_shown"]
    list_filter = [ConditionFilter, ("origin", ChoicesDropdownFilter)]
    sortable_by = ["name_shown"]
    empty_words = "Declare one in code with @scheduled, apply a file, or add one here."
    ordering = ["name"]
    search_help_text = "Name, or id such as job_…"
    actions: Any = None
    change_form_outer_before_template = "jobs/job_buttons.html"
    fields: ClassVar[Any] = [
        "name", ("state", "full_id"), "ownership", "schedule_in_words", "metadata_shown",
        ("enabled", "version"), "paused", ("created", "changed"),
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = [
        "name", "state", "full_id", "ownership", "schedule_in_words", "metadata_shown", "enabled",
        "paused", "version", "created", "changed",
    ]  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        steps = Prefetch("tasks", Task.objects.current().only("job_id", "function", "retired_at"))
        return super().get_queryset(request).prefetch_related(steps)

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return request.user.has_perm("jobs.add_job")

    @admin.display(description="state")
    def state(self, job: Job) -> SafeString:
        word = condition(job, job.tasks.all())
        tone, shape, meaning = LOOKS[word]
        return badge(word.label, tone, shape, title=meaning)

    @admin.display(description="schedule")
    def schedule_shown(self, job: Job) -> SafeString:
        return format_html("<code>{}</code>", shortened(job.schedule))

    @admin.display(description="schedule")
    def schedule_in_words(self, job: Job) -> SafeString:
        found = timing(job, job.created_at, 0)
        said = found.words or found.problem
        text = '<code style="overflow-wrap: anywhere">{}</code><span class="block text-subtle">{}</span>'
        return format_html(text, job.schedule, said)

    @admin.display(description="origin")
    def origin_shown(self, job: Job) -> str:
        return job.origin

    @admin.display(description="defined by")
    def ownership(self, job: Job) -> str:
        return OWNERS[Origin(job.origin)]

    @admin.display(description="metadata")
    def metadata_shown(self, job: Job) -> SafeString | str:
        return document(job.metadata)

    @admin.display(description="paused")
    def paused(self, job: Job) -> SafeString | str:
        return instant(job.paused_at, zone_of(job))

    def sections(self, row: Job) -> list[Section]:
        tasks = list(Task.objects.filter(job=row).order_by("position")[:MOST_TASKS])
        return [
            tasks_section(row, tasks),
            fires_section(timing(row, database_now(), FIRES), zone_of(row)),
            *configuration_sections(row, tasks),
            versions_section(row),
        ]

    def skipped_while_paused(self, job: Job) -> int | None:
        """Known to whoever sees the ledger."""
        return None

    def get_urls(self) -> list[URLPattern]:
        door = self.admin_site.admin_view
        return [
            path(
                "<uuid:job_id>/press/<slug:name>/", door(require_POST(self.press_view)), name="jobs_job_press"
            ),
            path("<uuid:job_id>/edit/", door(self.edit_view), name="jobs_job_edit"),
            path("schedule/", door(require_POST(self.schedule_view)), name="jobs_job_schedule"),
            path("<uuid:job_id>/resume/", door(require_safe(self.resume_view)), name="jobs_job_resume"),
            *super().get_urls(),
        ]

    def press_view(self, request: HttpRequest, job_id: UUID, name: str) -> HttpResponse:
        job, button = get_object_or_404(Job, pk=job_id), BUTTONS.get(name)
        if button is None:
            raise Http404(f"no button {name!r}")
        if not request.user.has_perm(button.permission):
            raise PermissionDenied
        press(self, request, button, job, request.POST)
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job_id]))

    def resume_view(self, request: HttpRequest, job_id: UUID) -> HttpResponse:
        job = get_object_or_404(Job, pk=job_id)
        if not request.user.has_perm(RESUME.permission):
            raise PermissionDenied
        return ask_backlog(self, request, job, self.skipped_while_paused)

    def edit_view(self, request: HttpRequest, job_id: UUID) -> HttpResponse:
        job = get_object_or_404(Job, pk=job_id)
        if not editable(request, job):
            raise PermissionDenied
        return Editor(self, request, job).respond()

    def schedule_view(self, request: HttpRequest) -> HttpResponse:
        if not (request.user.has_perm("jobs.change_job") or request.user.has_perm("jobs.add_job")):
            raise PermissionDenied
        return live(request)

    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return Editor(self, request).respond()

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        job = context.get("original")
        if job is not None:
            context["buttons"] = [one for one in offered(job) if request.user.has_perm(one.permission)]
            context["editable"] = editable(request, job)
        return super().render_change_form(request, context, *args, **kwargs)
