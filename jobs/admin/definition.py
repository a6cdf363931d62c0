"""What the pages of jobs and tasks share: found by name or id, shown in the same words."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.condition import Condition, in_condition, unresolved
from jobs.display import LONGEST_IN_A_LIST, NOTHING, badge, document, full_id, instant, shortened
from jobs.ids import parsed
from jobs.models import Job, Task
from jobs.theme import DropdownFilter, PlainAdmin

LOOKS = {
    Condition.ACTIVE: ("good", "play", "Fires on its schedule."),
    Condition.PAUSED: ("warn", "bars", "Its instants are recorded as skipped until it is resumed."),
    Condition.DISABLED: ("calm", "slash", "Switched off: nothing is planned until it is started."),
    Condition.UNRESOLVED: (
        "bad",
        "alert",
        "No code registers one of its functions: it cannot run.",
    ),
    Condition.REMOVED: ("calm", "cross", "No longer registered; kept for its history."),
}


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

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The page shows; what may be changed has a page of its own."""
        return False

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        try:
            return queryset.filter(pk=parsed(self.id_kind, search_term.strip())), False
        except ValueError:
            return super().get_search_results(request, queryset, search_term)

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **kwargs: Any
    ) -> Any:
        """The history of a row is short, and its page shows how many entries there are."""
        kind = Paginator if queryset.model is LogEntry else self.paginator
        return kind(queryset, per_page, *args, **kwargs)

    @admin.display(description="name", ordering="name")
    def name_shown(self, row: Job | Task) -> SafeString:
        return shortened(row.name)

    @admin.display(description="id")
    def full_id(self, row: Job | Task) -> SafeString:
        return full_id(row.shown_id)

    @admin.display(description="configuration")
    def config_shown(self, row: Job | Task) -> SafeString | str:
        return document(row.config)

    @admin.display(description="created")
    def created(self, row: Job | Task) -> SafeString | str:
        return instant(row.created_at)

    @admin.display(description="changed")
    def changed(self, row: Job | Task) -> SafeString | str:
        return instant(row.updated_at)


def function_shown(task: Task, length: int = LONGEST_IN_A_LIST) -> SafeString:
    name = format_html("<code>{}</code>", shortened(task.function, length))
    if not unresolved(task):
        return name
    tone, shape, _ = LOOKS[Condition.UNRESOLVED]
    return format_html("{} {}", name, badge("unresolved", tone, shape, title="No code registers it."))


def retired(task: Task) -> SafeString | str:
    return NOTHING if task.retired_at is None else instant(task.retired_at)
