"""The list and the page of a job with what the ledger knows about it: next, last, recent."""

# ruff: noqa: ARG002 - the signatures are Django's

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.db.models import Min, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from console import doors
from console.acts import offered
from console.dead import DEALS, acts_on
from console.grid import grid_panel
from console.history import histories, outcome_bars, p95
from console.month import month_panel
from console.several import several_url
from jobs.admin import JobAdmin
from jobs.buttons import PAUSE, RUN_NOW
from jobs.clock import database_now
from jobs.display import (
    Section,
    badge,
    both_clocks,
    instant,
    link,
    list_url,
    short_id,
    shortened,
    span,
    zone_of,
)
from jobs.models import Job
from jobs.secrecy import without_secrets
from jobs.theme import Listing
from jobs.timing import timing
from occurrences.admin import OccurrenceAdmin, TaskRunAdmin
from occurrences.backlog import MOST
from occurrences.badges import state_badge
from occurrences.models import Cursor, Occurrence, TaskRun
from occurrences.readonly import took
from occurrences.states import OccurrenceState, RunState
from recovery.deadletters import Wanted

RECENT = 10
LONGEST_WORDS = 80


class JobListing(Listing):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        attach_ledger(self.result_list)


def attach_ledger(jobs: Sequence[Any]) -> None:
    """Give each job of a page its next occurrence, its newest outcomes and its problem, in four queries."""
    ids = [job.pk for job in jobs]
    ahead, behind, problems = next_runs(ids), histories(ids), planning_problems(ids)
    for job in jobs:
        job.next_run_at = ahead.get(job.pk)
        job.ended = behind.get(job.pk, [])
        job.problem = problems.get(job.pk, "")


def next_runs(jobs: Sequence[UUID]) -> dict[UUID, Any]:
    # Asked for apart from the list: as a subquery per job it would read each job's history.
    pending = Occurrence.objects.filter(job__in=jobs, state=OccurrenceState.PENDING)
    return dict(pending.order_by().values_list("job").annotate(first=Min("run_at")))


def planning_problems(jobs: Sequence[UUID]) -> dict[UUID, str]:
    broken = Cursor.objects.filter(job__in=jobs).exclude(problem="")
    return dict(broken.values_list("job", "problem"))


admin.site.unregister([Job, Occurrence, TaskRun])


@admin.register(Occurrence)
class OccurrenceBoard(OccurrenceAdmin):
    """With the buttons that recovery and execution answer to."""

    change_form_outer_before_template = "console/occurrence_buttons.html"
    list_before_template = "console/occurrence_list.html"

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = context.get("original")
        context["acts"] = [] if row is None else offered(row, request)
        return super().render_change_form(request, context, *args, **kwargs)


@admin.register(TaskRun)
class TaskRunBoard(TaskRunAdmin):
    """With what can be done about a dead letter: one from its page, many from the list."""

    change_form_outer_before_template = "console/occurrence_buttons.html"
    actions: Any = ["replay", "purge"]

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(DEALS)

    @admin.action(description="Replay dead letters…", permissions=["resolve"])
    def replay(self, request: HttpRequest, queryset: QuerySet[TaskRun]) -> HttpResponse:
        return HttpResponseRedirect(deal_url("replay", queryset.values_list("pk", flat=True)))

    @admin.action(description="Purge dead letters…", permissions=["resolve"])
    def purge(self, request: HttpRequest, queryset: QuerySet[TaskRun]) -> HttpResponse:
        return HttpResponseRedirect(deal_url("purge", queryset.values_list("pk", flat=True)))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = context.get("original")
        if row is not None and self.has_resolve_permission(request):
            dead = row.state == RunState.DLQ and row.resolved_at is None
            context["acts"] = acts_on(Wanted(ids=(row.pk,))) if dead else []
        return super().render_change_form(request, context, *args, **kwargs)


def deal_url(name: str, runs: Iterable[UUID]) -> str:
    return f"{reverse('console:deal', args=[name])}?{urlencode({'runs': ','.join(map(str, runs))})}"


@admin.register(Job)
class JobBoard(JobAdmin):
    list_display: Any = [
        "name_shown", "state", "outcomes", "p95_shown", "next_run", "schedule_told",
    ]  # fmt: skip
    fields: ClassVar[Any] = [
        *JobAdmin.fields[:2], "next_run", ("outcomes", "p95_shown"), *JobAdmin.fields[2:],
    ]  # fmt: skip
    readonly_fields: ClassVar[Any] = [
        "next_run", "outcomes", "p95_shown", *JobAdmin.readonly_fields,
    ]  # fmt: skip

    actions: Any = ["run_now", "pause", "resume"]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[Listing]:
        return JobListing

    def has_trigger_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(RUN_NOW.permission)

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(PAUSE.permission)

    @admin.action(description="Run now…", permissions=["trigger"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return HttpResponseRedirect(several_url("run", queryset.values_list("pk", flat=True)))

    @admin.action(description="Pause…", permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return HttpResponseRedirect(several_url("pause", queryset.values_list("pk", flat=True)))

    @admin.action(description="Resume, without the backlog…", permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return HttpResponseRedirect(several_url("resume", queryset.values_list("pk", flat=True)))

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Job | None:
        job: Job | None = super().get_object(request, *args, **kwargs)
        if job is not None:
            attach_ledger([job])
        return job

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        job = context.get("original")
        context["acts"] = [] if job is None else doors.offered(job, request)
        context["problem"] = "" if job is None else without_secrets(job.problem)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="last 20")
    def outcomes(self, job: Any) -> SafeString | str:
        return outcome_bars(job.ended)

    @admin.display(description="p95")
    def p95_shown(self, job: Any) -> SafeString | str:
        return span(p95(job.ended))

    @admin.display(description="schedule")
    def schedule_told(self, job: Any) -> SafeString:
        """In words; as it is written on hover."""
        found = timing(job, job.created_at, 0)
        words = Truncator(found.words or job.schedule).chars(LONGEST_WORDS)
        return format_html('<span title="{}">{}</span>', job.schedule, words)

    @admin.display(description="next run")
    def next_run(self, job: Any) -> SafeString | str:
        if job.problem:
            return badge("not planned", "bad", "alert", title=job.problem)
        return both_clocks(job.next_run_at, zone_of(job))

    def skipped_while_paused(self, job: Job) -> int | None:
        """As many as resuming would run at most."""
        skipped = Occurrence.objects.filter(
            job=job, state=OccurrenceState.SKIPPED, reason="paused", finished_at__gte=job.paused_at
        )
        return skipped[:MOST].count()

    def sections_asked(self, request: HttpRequest, row: Job) -> list[Section]:
        """What happened first, then how it is defined."""
        now, grid = database_now(), grid_panel(row)
        tasks, *rest = super().sections(row)
        drawn = [Section("Tasks by newest occurrences", content=grid)] if grid else []
        month = Section("Calendar", content=month_panel(row, request.GET.get("month", ""), now))
        return [*drawn, newest_section(row), month, tasks, *rest]


def newest_section(job: Job) -> Section:
    history = Occurrence.objects.filter(job=job).defer("config", "args", "report")
    rows = [_cells(one, job) for one in history.order_by("-scheduled_for")[:RECENT]]
    headers = ["occurrence", "state", "cause", "scheduled for", "started", "took", "reason"]
    more = list_url("occurrences_occurrence", job__id__exact=job.pk)
    return Section("Newest occurrences", headers, rows, more)


def _cells(one: Occurrence, job: Job) -> list[object]:
    zone = zone_of(job)
    return [
        link(one, short_id(one.shown_id)),
        state_badge(OccurrenceState(one.state), one.reason),
        one.get_cause_display(),
        instant(one.scheduled_for, zone),
        instant(one.started_at, zone),
        took(one),
        shortened(one.reason),
    ]
