"""The list and the page of audit entries: who requested what, when and why. Read-only."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from punctual.console.kit.display import NOTHING, badge, document, instant, shorten
from punctual.console.kit.theme import ChoicesDropdownFilter, ConsoleAdmin
from punctual.operations.audit import CHANGES_KEY
from punctual.operations.models import Audit

LONG_REASON = 80
UNFINISHED = "Under way or interrupted: this many are done, and no more."


class AuditAdmin(ConsoleAdmin[Audit]):
    list_display: Any = ["action", "count_cell", "by", "time", "reason_cell"]
    list_filter = [("action", ChoicesDropdownFilter)]
    list_defer = ["details"]
    empty_text = (
        "Each replay, cancel, skip, backfill, purge, prune and recovery by an operator is recorded here."
    )
    sortable_by: ClassVar[Any] = []
    ordering = ["-id"]
    actions = None
    fields: ClassVar[Any] = [
        ("action", "count_cell"), "requested_by", "time", "reason", "asked_for", "done_cell",
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten(fields)

    def has_change_permission(self, request: HttpRequest, obj: Audit | None = None) -> bool:
        return False

    @admin.display(description="count")
    def count_cell(self, entry: Audit) -> SafeString:
        broken = "" if entry.finished else badge("not finished", "warn", "alert", title=UNFINISHED)
        return format_html("{} {}", f"{entry.count:,}", broken)

    @admin.display(description="by")
    def by(self, entry: Audit) -> SafeString:
        return shorten(entry.requested_by)

    @admin.display(description="time")
    def time(self, entry: Audit) -> SafeString | str:
        return instant(entry.at)

    @admin.display(description="reason")
    def reason_cell(self, entry: Audit) -> SafeString | str:
        return shorten(entry.reason, LONG_REASON) if entry.reason else NOTHING

    @admin.display(description="what was asked for")
    def asked_for(self, entry: Audit) -> SafeString | str:
        return document({key: value for key, value in entry.details.items() if key != CHANGES_KEY})

    @admin.display(description="what was done")
    def done_cell(self, entry: Audit) -> SafeString | str:
        """Show counts by kind, if the request does several things."""
        return document(entry.details.get(CHANGES_KEY, {}))
