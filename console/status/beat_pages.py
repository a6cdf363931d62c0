"""The list of beats: which ones tick, and how long ago, by the clock of the database."""

# ruff: noqa: ARG002 - the signatures are Django's

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, QuerySet, Value
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from punctual.console.kit.display import badge, instant, shorten, span
from punctual.console.kit.theme import ConsoleAdmin
from punctual.execution.models import Process
from punctual.jobs.clock import database_now

SILENT_AFTER = timedelta(seconds=10)


class BeatAdmin(ConsoleAdmin[Process]):
    list_display: Any = ["name_cell", "alive", "age_cell", "ticked", "started", "took"]
    fields: ClassVar[Any] = list_display
    readonly_fields: ClassVar[Any] = list_display
    sortable_by: ClassVar[Any] = []
    search_fields = ["name"]
    empty_text = "No beat has ticked: nothing will start. Run manage.py up, or celery beat."
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Process]:
        now = Value(database_now(), output_field=DateTimeField())
        age = ExpressionWrapper(now - F("seen_at"), DurationField())
        return super().get_queryset(request).filter(kind=Process.Kind.BEAT).annotate(age=age)

    def has_change_permission(self, request: HttpRequest, obj: Process | None = None) -> bool:
        return False

    @admin.display(description="beat")
    def name_cell(self, beat: Process) -> SafeString:
        return shorten(beat.name)

    @admin.display(description="state")
    def alive(self, beat: Any) -> SafeString:
        if beat.age > SILENT_AFTER:
            return badge("silent", "bad", "cross", title="It may have been stopped on purpose.")
        return badge("ticking", "good", "play")

    @admin.display(description="last tick")
    def age_cell(self, beat: Any) -> SafeString | str:
        return format_html("{} ago", span(beat.age))

    @admin.display(description="ticked at")
    def ticked(self, beat: Process) -> SafeString | str:
        return instant(beat.seen_at)

    @admin.display(description="started")
    def started(self, beat: Process) -> SafeString | str:
        return instant(beat.started_at)

    @admin.display(description="last tick took")
    def took(self, beat: Process) -> SafeString | str:
        return span(beat.tick_duration)
