"""Pools in the admin: how many slots each has, how many are taken, and who waits; the size can be changed."""

# ruff: noqa: ARG002 - the signatures are Django's

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest

from jobs.display import Section, instant, link, short_id, shortened, zone_of
from jobs.theme import PlainAdmin
from occurrences.badges import state_badge
from occurrences.models import Occurrence, OccurrenceQuerySet, Pool
from occurrences.states import OccurrenceState

MOST = 50
HEADERS = ["job", "occurrence", "state", "priority", "chosen time", "started"]


@admin.register(Pool)
class PoolAdmin(PlainAdmin[Pool]):
    list_display: Any = ["name", "size", "taken", "waiting"]
    fields: ClassVar[Any] = ["name", "size", "taken", "waiting"]
    readonly_fields: ClassVar[Any] = ["taken", "waiting"]
    sortable_by: ClassVar[Any] = []
    search_fields = ["name"]
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Pool]:
        counts = {"slots": _count(Occurrence.objects.active()), "line": _count(Occurrence.objects.waiting())}
        return super().get_queryset(request).annotate(**counts)

    def get_readonly_fields(self, request: HttpRequest, obj: Pool | None = None) -> Any:
        """A pool keeps its name: occurrences and definitions know it by it."""
        return self.readonly_fields if obj is None else ["name", *self.readonly_fields]

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return request.user.has_perm("occurrences.add_pool")

    def sections(self, row: Pool) -> list[Section]:
        """Who holds the slots, longest first, and who is next in line."""
        held = _light(Occurrence.objects.active().filter(pool=row.name)).order_by("scheduled_for")
        line = _light(Occurrence.objects.waiting().filter(pool=row.name)).order_by("-priority", "run_at")
        return [
            Section("Who holds the slots", HEADERS, [_cells(one) for one in held[:MOST]]),
            Section("Who is next", HEADERS, [_cells(one) for one in line[:MOST]]),
        ]

    @admin.display(description="taken")
    def taken(self, pool: Any) -> int:
        return getattr(pool, "slots", 0)

    @admin.display(description="waiting")
    def waiting(self, pool: Any) -> int:
        return getattr(pool, "line", 0)


def _light(rows: OccurrenceQuerySet) -> OccurrenceQuerySet:
    return rows.select_related("job").defer("config", "args", "report", "overrides")


def _cells(one: Occurrence) -> list[object]:
    zone = zone_of(one.job)
    return [
        link(one.job, shortened(one.job.name)),
        link(one, short_id(one.shown_id)),
        state_badge(OccurrenceState(one.state), one.reason),
        one.priority,
        instant(one.run_at, zone),
        instant(one.started_at, zone),
    ]


def _count(rows: OccurrenceQuerySet) -> Coalesce:
    """Over the partial indexes of what is active or waits, so it costs what they hold."""
    mine = rows.filter(pool=OuterRef("name")).order_by().values("pool").annotate(found=Count("pool"))
    return Coalesce(Subquery(mine.values("found")), 0, output_field=IntegerField())
