"""Beats in the admin: who ticks, and how long ago, in the database's time."""

# ruff: noqa: ARG002 - the signatures are Django's

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import DurationField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from beat.models import Beat
from jobs.display import badge, instant, shortened, span
from jobs.theme import PlainAdmin

SILENT_AFTER = timedelta(seconds=10)


@admin.register(Beat)
class BeatAdmin(PlainAdmin[Beat]):
    list_display: Any = ["name_shown", "alive", "age_shown", "ticked", "started", "took"]
    fields: ClassVar[Any] = list_display
    readonly_fields: ClassVar[Any] = list_display
    sortable_by: ClassVar[Any] = []
    search_fields = ["name"]
    empty_words = "No beat has ticked: nothing will start. Run manage.py up, or celery beat."
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Beat]:
        age = ExpressionWrapper(Now() - F("ticked_at"), DurationField())
        return super().get_queryset(request).annotate(age=age)

    def has_change_permission(self, request: HttpRequest, obj: Beat | None = None) -> bool:
        return False

    @admin.display(description="beat")
    def name_shown(self, beat: Beat) -> SafeString:
        return shortened(beat.name)

    @admin.display(description="state")
    def alive(self, beat: Any) -> SafeString:
        if beat.age > SILENT_AFTER:
            return badge("silent", "bad", "cross", title="It may have been stopped on purpose.")
        return badge("ticking", "good", "play")

    @admin.display(description="last tick")
    def age_shown(self, beat: Any) -> SafeString | str:
        return format_html("{} ago", span(beat.age))

    @admin.display(description="ticked at")
    def ticked(self, beat: Beat) -> SafeString | str:
        return instant(beat.ticked_at)

    @admin.display(description="started")
    def started(self, beat: Beat) -> SafeString | str:
        return instant(beat.started_at)

    @admin.display(description="last tick took")
    def took(self, beat: Beat) -> SafeString | str:
        return span(beat.lag)
