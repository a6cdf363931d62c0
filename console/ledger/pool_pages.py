"""The list and the page of pools: slots, who holds them, what waits; the size can be changed."""

# ruff: noqa: ARG002 - the signatures are Django's

from collections import defaultdict
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, F, IntegerField, OuterRef, QuerySet, Subquery, Window
from django.db.models.functions import Coalesce, RowNumber
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from punctual.console.kit.badges import state_badge
from punctual.console.kit.display import NOTHING, Section, instant, link, short_id, shorten, zone_of
from punctual.console.kit.theme import ConsoleAdmin, KeysetChangeList
from punctual.occurrences.models import Occurrence, Pool
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import OccurrenceState

MAX_LISTED, MAX_NAMED, MAX_NAME_TEXT = 50, 3, 24
HEADERS = ["job", "occurrence", "state", "priority", "start time", "started"]


class PoolChangeList(KeysetChangeList):
    """Add to each pool of the page the occurrences that have held its slots longest, in one query."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rank = Window(RowNumber(), partition_by="pool", order_by=F("scheduled_for").asc())
        names = [pool.pk for pool in self.result_list]
        active = _light(Occurrence.objects.holding_slots().filter(pool__in=names)).annotate(rank=rank)
        holders: dict[str, list[Occurrence]] = defaultdict(list)
        for one in active.filter(rank__lte=MAX_NAMED).order_by("pool", "rank"):
            holders[one.pool].append(one)
        for pool in self.result_list:
            pool.holders = holders[pool.pk]


class PoolAdmin(ConsoleAdmin[Pool]):
    list_display: Any = ["name", "used", "waiting", "holders"]
    empty_text = "A pool bounds how many occurrences are active at once; a job's configuration names it."
    fields: ClassVar[Any] = ["name", "size", "taken", "waiting"]
    readonly_fields: ClassVar[Any] = ["taken", "waiting"]
    sortable_by: ClassVar[Any] = []
    search_fields = ["name"]
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Pool]:
        counts = {
            "slots": _count(Occurrence.objects.holding_slots()),
            "line": _count(Occurrence.objects.waiting()),
        }
        return super().get_queryset(request).annotate(**counts)

    def get_readonly_fields(self, request: HttpRequest, obj: Pool | None = None) -> Any:
        """Make the name read-only after creation: occurrences and definitions refer to it."""
        return self.readonly_fields if obj is None else ["name", *self.readonly_fields]

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return request.user.has_perm("punctual.add_pool")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[KeysetChangeList]:
        return PoolChangeList

    def sections(self, row: Pool) -> list[Section]:
        """List the occurrences that hold slots, longest first, and those that wait."""
        # State first: by time alone PostgreSQL would scan all of history for the few that hold a slot.
        active = _light(Occurrence.objects.holding_slots().filter(pool=row.name)).order_by(
            "-state", "scheduled_for"
        )
        line = _light(Occurrence.objects.waiting().filter(pool=row.name)).order_by("-priority", "run_at")
        return [
            Section(
                "Who holds the slots",
                HEADERS,
                [_cells(one) for one in active[:MAX_LISTED]],
                empty="No slot is taken.",
            ),
            Section(
                "Who is next", HEADERS, [_cells(one) for one in line[:MAX_LISTED]], empty="Nothing waits."
            ),
        ]

    @admin.display(description="taken")
    def taken(self, pool: Any) -> int:
        return getattr(pool, "slots", 0)

    @admin.display(description="taken")
    def used(self, pool: Any) -> SafeString:
        """Show the share of taken slots as a bar; a full one is striped."""
        share = min(100, round(100 * pool.slots / pool.size)) if pool.size else 100
        return format_html(
            '<span class="meter{}" aria-hidden="true"><span style="width: {}%"></span></span>'
            '<span class="line">{} of {}</span>',
            " full" if pool.slots >= pool.size else "", share, f"{pool.slots:,}", f"{pool.size:,}",
        )  # fmt: skip

    @admin.display(description="held by")
    def holders(self, pool: Any) -> SafeString | str:
        links = [link(one, shorten(one.job.name, MAX_NAME_TEXT)) for one in pool.holders[:MAX_NAMED]]
        more = f" and {pool.slots - MAX_NAMED} more" if pool.slots > MAX_NAMED else ""
        return format_html("{}{}", format_html_join(", ", "{}", ((one,) for one in links)), more) or NOTHING

    @admin.display(description="waiting")
    def waiting(self, pool: Any) -> int:
        return getattr(pool, "line", 0)


def _light(rows: OccurrenceQuerySet) -> OccurrenceQuerySet:
    return rows.select_related("job").defer("config", "args", "report", "overrides")


def _cells(one: Occurrence) -> list[object]:
    zone = zone_of(one.job)
    return [
        link(one.job, shorten(one.job.name)),
        link(one, short_id(one.display_id)),
        state_badge(OccurrenceState(one.state), one.reason),
        one.priority,
        instant(one.run_at, zone),
        instant(one.started_at, zone),
    ]


def _count(rows: OccurrenceQuerySet) -> Coalesce:
    """Count rows per pool over a partial index: the cost is the number of active or waiting rows."""
    counts = rows.filter(pool=OuterRef("name")).order_by().values("pool").annotate(count=Count("pool"))
    return Coalesce(Subquery(counts.values("count")), 0, output_field=IntegerField())
