"""The list and the page of versions: who changed a definition, what, when and why. Read-only."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from punctual.console.definitions.editor import is_editable
from punctual.console.definitions.sections import changes_section
from punctual.console.kit.display import Section, document, instant, link, shorten
from punctual.console.kit.theme import AutocompleteSelectFilter, ConsoleAdmin
from punctual.jobs.definition.comparison import field_changes
from punctual.jobs.models import JobVersion


class VersionAdmin(ConsoleAdmin[JobVersion]):
    list_display: Any = ["number_cell", "job_cell", "author_cell", "time", "reason_cell"]
    list_filter = [("job", AutocompleteSelectFilter)]
    list_select_related = ["job"]
    list_defer = ["before", "after"]
    sortable_by: ClassVar[Any] = []
    ordering = ["-id"]
    actions = None
    empty_text = "Every change of a definition is a version."
    change_form_outer_before_template = "punctual_console/definitions/version_buttons.html"
    fieldsets: ClassVar[Any] = [
        (None, {"fields": [("job_cell", "number_cell"), ("author", "time"), "reason"]}),
        ("Whole definition", {"classes": ["collapse"], "fields": ["definition"]}),
    ]
    readonly_fields: ClassVar[Any] = flatten_fieldsets(fieldsets)

    def has_change_permission(self, request: HttpRequest, obj: JobVersion | None = None) -> bool:
        return False

    def page_title(self, row: JobVersion) -> str:
        return f"{row.job.name}, version {row.number}"

    @admin.display(description="version")
    def number_cell(self, version: JobVersion) -> str:
        return str(version)

    @admin.display(description="job")
    def job_cell(self, version: JobVersion) -> SafeString:
        return link(version.job, shorten(version.job.name))

    @admin.display(description="author")
    def author_cell(self, version: JobVersion) -> SafeString:
        return shorten(version.author)

    @admin.display(description="time")
    def time(self, version: JobVersion) -> SafeString | str:
        return instant(version.created_at)

    @admin.display(description="reason")
    def reason_cell(self, version: JobVersion) -> SafeString:
        return shorten(version.reason)

    @admin.display(description="definition from then on")
    def definition(self, version: JobVersion) -> SafeString | str:
        return document(version.after)

    def sections(self, row: JobVersion) -> list[Section]:
        return [changes_section("What it changed", field_changes(row.before, row.after))]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        version = context.get("original")
        if (
            version is not None
            and version.number != version.job.version
            and is_editable(request, version.job)
        ):
            editor = reverse("admin:punctual_job_edit", args=[version.job_id])
            context["restore_url"] = f"{editor}?restore={version.number}"
        return super().render_change_form(request, context, *args, **kwargs)
