"""Base of the pages of jobs and tasks: search by name or id, how a job's condition looks."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from punctual.console.kit.display import MAX_LIST_TEXT, NOTHING, badge, document, full_id, instant, shorten
from punctual.console.kit.theme import ConsoleAdmin, DropdownFilter
from punctual.jobs.condition import Condition, in_condition, is_unresolved
from punctual.jobs.ids import parse_id
from punctual.jobs.models import Job, Task

CONDITION_LOOKS = {
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
        value = self.value()
        return queryset.filter(in_condition(value)) if value in Condition.values else queryset


class DefinitionAdmin(ConsoleAdmin[Any]):
    """Search finds a row by name, or by id with or without its prefix."""

    id_kind: str
    search_fields = ["name"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse Django's own form: changes go through the editor."""
        return False

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        try:
            return queryset.filter(pk=parse_id(self.id_kind, search_term.strip())), False
        except ValueError:
            return super().get_search_results(request, queryset, search_term)

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **kwargs: Any
    ) -> Any:
        """Use Django's paginator for the history of a row: it is short, and its page shows a count."""
        kind = Paginator if queryset.model is LogEntry else self.paginator
        return kind(queryset, per_page, *args, **kwargs)

    @admin.display(description="name", ordering="name")
    def name_cell(self, row: Job | Task) -> SafeString:
        return shorten(row.name)

    @admin.display(description="id")
    def full_id(self, row: Job | Task) -> SafeString:
        return full_id(row.display_id)

    @admin.display(description="configuration")
    def config_cell(self, row: Job | Task) -> SafeString | str:
        return document(row.config)

    @admin.display(description="created")
    def created(self, row: Job | Task) -> SafeString | str:
        return instant(row.created_at)

    @admin.display(description="changed")
    def changed(self, row: Job | Task) -> SafeString | str:
        return instant(row.updated_at)


def function_cell(task: Task, length: int = MAX_LIST_TEXT) -> SafeString:
    name = format_html("<code>{}</code>", shorten(task.function, length))
    if not is_unresolved(task):
        return name
    return format_html("{} {}", name, unresolved_badge())


def unresolved_badge() -> SafeString:
    tone, shape, _ = CONDITION_LOOKS[Condition.UNRESOLVED]
    return badge("unresolved", tone, shape, title="No code registers it.")


def retired_cell(task: Task) -> SafeString | str:
    return NOTHING if task.retired_at is None else instant(task.retired_at)
