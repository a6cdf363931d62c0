"""Pools in the admin: how many slots each has, how many are taken, and who waits; the size can be changed."""

# ruff: noqa: ARG002 - the signatures are Django's

from collections import defaultdict
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, F, IntegerField, OuterRef, QuerySet, Subquery, Window
from django.db.models.functions import Coalesce, RowNumber
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from jobs.display import NOTHING, Section, instant, link, short_id, shortened, zone_of
from jobs.theme import Listing, PlainAdmin
from occurrences.badges import state_badge
from occurrences.models import Occurrence, OccurrenceQuerySet, Pool
from occurrences.states import OccurrenceState

MOST, NAMED, LONGEST_NAME = 50, 3, 24
HEADERS = ["job", "occurrence", "state", "priority", "chosen time", "started"]


class PoolListing(Listing):
    """Each pool of the page with some of those that hold its slots, longest first, in one query."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rank = Window(RowNumber(), partition_by="pool", order_by=F("scheduled_for").asc())
        names = [pool.pk for pool in self.result_list]
        held = _light(Occurrence.objects.active().filter(pool__in=names)).annotate(rank=rank)
        holders: dict[str, list[Occurrence]] = defaultdict(list)
        for one in held.filter(rank__lte=NAMED).order_by("pool", "rank"):
            holders[one.pool].append(one)
        for pool in self.result_list:
            pool.held = holders[pool.pk]


@admin.register(Pool)
class PoolAdmin(PlainAdmin[Pool]):
    list_display: Any = ["name", "used", "waiting", "holders"]
    empty_words = "A pool bounds how many occurrences are active at once; a job's configuration names it."
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

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[Listing]:
        return PoolListing

    def sections(self, row: Pool) -> list[Section]:
        """Who holds the slots, longest first, and who is next in line."""
        # By state first: by time alone PostgreSQL would walk all of history to find the few that are active.
        held = _light(Occurrence.objects.active().filter(pool=row.name)).order_by("-state", "scheduled_for")
        line = _light(Occurrence.objects.waiting().filter(pool=row.name)).order_by("-priority", "run_at")
        return [
            Section("Who holds the slots", HEADERS, [_cells(one) for one in held[:MOST]], empty="Nobody."),
            Section("Who is next", HEADERS, [_cells(one) for one in line[:MOST]], empty="Nobody waits."),
        ]

    @admin.display(description="taken")
    def taken(self, pool: Any) -> int:
        return getattr(pool, "slots", 0)

    @admin.display(description="taken")
    def used(self, pool: Any) -> SafeString:
        """As a bar; a full one is striped."""
        share = min(100, round(100 * pool.slots / pool.size)) if pool.size else 100
        return format_html(
            '<span class="meter{}" aria-hidden="true"><span style="width: {}%"></span></span>'
            '<span class="line">{} of {}</span>',
            " full" if pool.slots >= pool.size else "", share, f"{pool.slots:,}", f"{pool.size:,}",
        )  # fmt: skip

    @admin.display(description="held by")
    def holders(self, pool: Any) -> SafeString | str:
        named = [link(one, shortened(one.job.name, LONGEST_NAME)) for one in pool.held[:NAMED]]
        more = f" and {pool.slots - NAMED} more" if pool.slots > NAMED else ""
        return format_html("{}{}", format_html_join(", ", "{}", ((one,) for one in named)), more) or NOTHING

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
