"""The history of definitions: who changed what, when and why. Rows are read-only everywhere."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from jobs.admin.editor import editable
from jobs.admin.sections import changes_section
from jobs.changes import changes
from jobs.display import Section, document, instant, link, shortened
from jobs.models import JobVersion
from jobs.theme import AutocompleteSelectFilter, PlainAdmin


@admin.register(JobVersion)
class VersionAdmin(PlainAdmin[JobVersion]):
    list_display: Any = ["number_shown", "job_shown", "author_shown", "time", "reason_shown"]
    list_filter = [("job", AutocompleteSelectFilter)]
    list_select_related = ["job"]
    list_defer = ["before", "after"]
    sortable_by: ClassVar[Any] = []
    ordering = ["-id"]
    actions = None
    empty_words = "Every change of a definition is a version."
    change_form_outer_before_template = "jobs/version_buttons.html"
    fieldsets: ClassVar[Any] = [
        (None, {"fields": [("job_shown", "number_shown"), ("author", "time"), "reason"]}),
        ("Whole definition", {"classes": ["collapse"], "fields": ["definition"]}),
    ]
    readonly_fields: ClassVar[Any] = flatten_fieldsets(fieldsets)

    def has_change_permission(self, request: HttpRequest, obj: JobVersion | None = None) -> bool:
        return False

    def title_of(self, row: JobVersion) -> str:
        return f"{row.job.name}, version {row.number}"

    @admin.display(description="version")
    def number_shown(self, version: JobVersion) -> str:
        return str(version)

    @admin.display(description="job")
    def job_shown(self, version: JobVersion) -> SafeString:
        return link(version.job, shortened(version.job.name))

    @admin.display(description="author")
    def author_shown(self, version: JobVersion) -> SafeString:
        return shortened(version.author)

    @admin.display(description="time")
    def time(self, version: JobVersion) -> SafeString | str:
        return instant(version.created_at)

    @admin.display(description="reason")
    def reason_shown(self, version: JobVersion) -> SafeString:
        return shortened(version.reason)

    @admin.display(description="definition from then on")
    def definition(self, version: JobVersion) -> SafeString | str:
        return document(version.after)

    def sections(self, row: JobVersion) -> list[Section]:
        return [changes_section("What it changed", changes(row.before, row.after))]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        version = context.get("original")
        if version is not None and version.number != version.job.version and editable(request, version.job):
            editor = reverse("admin:jobs_job_edit", args=[version.job_id])
            context["restore_url"] = f"{editor}?restore={version.number}"
        return super().render_change_form(request, context, *args, **kwargs)
