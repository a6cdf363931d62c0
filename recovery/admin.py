"""The audit in the admin: who asked for what, when and why. Rows are read-only everywhere."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.display import NOTHING, badge, document, instant, shortened
from jobs.theme import ChoicesDropdownFilter, PlainAdmin
from recovery.audit import DONE
from recovery.models import Audit

LONG_REASON = 80
UNFINISHED = "Under way, or broken off: so many are done, and no more."


@admin.register(Audit)
class AuditAdmin(PlainAdmin[Audit]):
    list_display: Any = ["action", "count_shown", "by", "time", "reason_shown"]
    list_filter = [("action", ChoicesDropdownFilter)]
    list_defer = ["details"]
    empty_words = "Whoever replays, cancels, skips, backfills, purges, prunes or recovers leaves a line here."
    sortable_by: ClassVar[Any] = []
    ordering = ["-id"]
    actions = None
    fields: ClassVar[Any] = [
        ("action", "count_shown"), "requested_by", "time", "reason", "asked_for", "done_shown",
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = flatten(fields)

    def has_change_permission(self, request: HttpRequest, obj: Audit | None = None) -> bool:
        return False

    @admin.display(description="count")
    def count_shown(self, entry: Audit) -> SafeString:
        broken = "" if entry.finished else badge("not finished", "warn", "alert", title=UNFINISHED)
        return format_html("{} {}", f"{entry.count:,}", broken)

    @admin.display(description="by")
    def by(self, entry: Audit) -> SafeString:
        return shortened(entry.requested_by)

    @admin.display(description="time")
    def time(self, entry: Audit) -> SafeString | str:
        return instant(entry.at)

    @admin.display(description="reason")
    def reason_shown(self, entry: Audit) -> SafeString | str:
        return shortened(entry.reason, LONG_REASON) if entry.reason else NOTHING

    @admin.display(description="what was asked for")
    def asked_for(self, entry: Audit) -> SafeString | str:
        return document({key: value for key, value in entry.details.items() if key != DONE})

    @admin.display(description="what was done")
    def done_shown(self, entry: Audit) -> SafeString | str:
        """By kind, where a request does several things."""
        return document(entry.details.get(DONE, {}))
