"""The list and the page of a job with what the ledger knows about it: next, last, recent."""

# ruff: noqa: ARG002 - the signatures are Django's

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.db.models import Min, OuterRef, Subquery
from django.http import HttpRequest
from django.utils.safestring import SafeString

from jobs.admin import JobAdmin
from jobs.display import (
    NOTHING,
    Section,
    badge,
    instant,
    link,
    list_url,
    short_id,
    shortened,
    zone_of,
)
from jobs.models import Job
from jobs.theme import Listing
from occurrences.backlog import MOST
from occurrences.badges import state_badge
from occurrences.models import Cursor, Occurrence
from occurrences.readonly import took
from occurrences.states import OccurrenceState

RECENT = 25


class JobListing(Listing):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        attach_ledger(self.result_list)


def attach_ledger(jobs: Sequence[Any]) -> None:
    """Give each job of a page its next and last occurrence and its problem, in three queries."""
    ids = [job.pk for job in jobs]
    ahead, behind, problems = next_runs(ids), last_outcomes(ids), planning_problems(ids)
    for job in jobs:
        job.next_run_at = ahead.get(job.pk)
        job.last = behind.get(job.pk)
        job.problem = problems.get(job.pk, "")


def next_runs(jobs: Sequence[UUID]) -> dict[UUID, Any]:
    # Asked for apart from the list: as a subquery per job it would read each job's history.
    pending = Occurrence.objects.filter(job__in=jobs, state=OccurrenceState.PENDING)
    return dict(pending.order_by().values_list("job").annotate(first=Min("run_at")))


def last_outcomes(jobs: Sequence[UUID]) -> dict[UUID, Occurrence]:
    history = Occurrence.objects.filter(job=OuterRef("pk"), finished_at__isnull=False)
    newest = history.order_by("-scheduled_for").values("pk")[:1]
    picked = Job.objects.filter(pk__in=jobs).order_by().values(newest=Subquery(newest))
    rows = Occurrence.objects.filter(pk__in=picked).only("job_id", "state", "reason")
    return {row.job_id: row for row in rows}


def planning_problems(jobs: Sequence[UUID]) -> dict[UUID, str]:
    broken = Cursor.objects.filter(job__in=jobs).exclude(problem="")
    return dict(broken.values_list("job", "problem"))


admin.site.unregister(Job)


@admin.register(Job)
class JobBoard(JobAdmin):
    list_display: Any = [
        "name_shown", "state", "last_outcome", "next_run", "schedule_shown", "origin_shown",
    ]  # fmt: skip
    fields: ClassVar[Any] = [*JobAdmin.fields[:2], ("next_run", "problem_shown"), *JobAdmin.fields[2:]]
    readonly_fields: ClassVar[Any] = ["problem_shown", "next_run", *JobAdmin.readonly_fields]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[Listing]:
        return JobListing

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Job | None:
        job: Job | None = super().get_object(request, *args, **kwargs)
        if job is not None:
            attach_ledger([job])
        return job

    @admin.display(description="last outcome")
    def last_outcome(self, job: Any) -> SafeString | str:
        if job.last is None:
            return NOTHING
        return link(job.last, state_badge(OccurrenceState(job.last.state), job.last.reason))

    @admin.display(description="next run")
    def next_run(self, job: Any) -> SafeString | str:
        if job.problem:
            return badge("not planned", "bad", "alert", title=job.problem)
        return instant(job.next_run_at, zone_of(job))

    @admin.display(description="problem")
    def problem_shown(self, job: Any) -> str:
        return job.problem or NOTHING

    def skipped_while_paused(self, job: Job) -> int | None:
        """As many as resuming would run at most."""
        skipped = Occurrence.objects.filter(
            job=job, state=OccurrenceState.SKIPPED, reason="paused", finished_at__gte=job.paused_at
        )
        return skipped[:MOST].count()

    def sections(self, row: Job) -> list[Section]:
        history = Occurrence.objects.filter(job=row).defer("config", "args", "report")
        rows = [_cells(one, row) for one in history.order_by("-scheduled_for")[:RECENT]]
        headers = ["occurrence", "state", "cause", "scheduled for", "started", "took", "reason"]
        more = list_url("occurrences_occurrence", job__id__exact=row.pk)
        tasks, *rest = super().sections(row)
        return [tasks, Section("Newest occurrences", headers, rows, more), *rest]


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
