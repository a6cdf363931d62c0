"""A request at a door → the form, what it would do, or that it is done."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.asking import ReasonForm, asked_by, why
from console.chores import Offer
from console.doors import (
    DOORS,
    LABELS,
    MOST_PRUNED,
    PRUNES,
    Door,
    held,
    pruned_message,
)
from console.shown import Done, Shown, at_least
from jobs.clock import database_now
from jobs.display import instant
from jobs.errors import DefinitionError, PunctualError
from jobs.models import Job
from recovery.audit import Asked, audited
from recovery.models import Action
from recovery.oldest import Keeps
from recovery.retention import Gone, Outlook, keeping, outlook, prune_jobs
from schedules import ScheduleError

JOBS_A_PAGE, MOST_JOBS = 1_000, 10_000
FIELDS = {"from": "since", "to": "until"}


@require_http_methods(["GET", "HEAD", "POST"])
def job_door(request: HttpRequest, job_id: UUID, name: str) -> HttpResponse:
    job, door = get_object_or_404(Job, pk=job_id), DOORS.get(name)
    if door is None:
        raise Http404(f"nothing is called {name!r}")
    if not request.user.has_perm(door.permission):
        raise PermissionDenied
    now = database_now()
    if not door.open_to(job):
        messages.error(request, f"“{job.name}” is not planned by beats any more.")
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job.pk]))
    form = door.form(job, now, request.POST if request.method == "POST" else _asked(request, door))
    reason = why(request)
    if request.method == "POST" and form.is_valid() and reason.is_valid():
        return _done(request, door, job, form, asked_by(request, reason), now)
    return _page(request, name, job, form, reason, now)


def _asked(request: HttpRequest, door: Door) -> Any:
    """Nothing asked yet: the form as it is. A door without a form has nothing to ask."""
    return request.GET if request.GET or not door.form.base_fields else None  # type: ignore[attr-defined]


def _done(
    request: HttpRequest, door: Door, job: Job, form: forms.Form, asked: Asked, now: datetime
) -> HttpResponse:
    try:
        said(request, door.do(job, form.cleaned_data, asked, now))
    except (PunctualError, ScheduleError) as error:
        messages.error(request, f"{door.label}: {error}")
    return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job.pk]))


def said(request: HttpRequest, done: Done) -> None:
    if done.trouble:
        messages.error(request, done.trouble)
    if done.count or not done.trouble:
        messages.add_message(request, messages.SUCCESS if done.count else messages.WARNING, done.message)


def _page(
    request: HttpRequest,
    name: str,
    job: Job,
    form: forms.Form,
    reason: ReasonForm,
    now: datetime,
) -> HttpResponse:
    door = DOORS[name]
    shown = _looked(door, job, form, now) if form.is_bound and form.is_valid() else None
    back = reverse("admin:jobs_job_change", args=[job.pk])
    context = {"title": f"{LABELS[name]}: {job.name}", "door": LABELS[name], "form": form, "back": back}
    return rendered(request, door, shown, context | {"why": reason, "held": held(form, now) if shown else []})


def _looked(door: Door, job: Job, form: forms.Form, now: datetime) -> Shown | None:
    """What cannot be done is said beside the field it is about."""
    try:
        return door.look(job, form.cleaned_data, now)
    except DefinitionError as error:
        field = FIELDS.get(error.field)
        form.add_error(field if field in form.fields else None, str(error))
    except (PunctualError, ScheduleError) as error:
        form.add_error(None, str(error))
    return None


def rendered(
    request: HttpRequest, door: Door | Offer, shown: Shown | None, context: dict[str, Any]
) -> HttpResponse:
    told = {
        **admin.site.each_context(request),
        "label": door.label,
        "meaning": door.meaning,
        "danger": door.danger,
        "shown": shown,
    }
    if shown is not None:
        one, many = shown.what
        told |= {"count": shown.count, "said": shown.said or f"{shown.count:,}"}
        told |= {"what": one if shown.count == 1 else many}
        told |= {"facts": shown.facts, "hint": shown.hint, "sections": shown.tables}
    return render(request, "console/door.html", told | context)


@require_http_methods(["GET", "HEAD", "POST"])
def prune_all(request: HttpRequest) -> HttpResponse:
    """Of every job, what is older than it keeps it."""
    if not request.user.has_perm(PRUNES):
        raise PermissionDenied
    now, back = database_now(), reverse("admin:occurrences_occurrence_changelist")
    reason = why(request)
    if request.method == "POST" and reason.is_valid():
        gone = _prune_all(asked_by(request, reason), now)
        said(request, Done(gone.pruned, pruned_message("All jobs", gone.pruned, more=gone.more)))
        return HttpResponseRedirect(back)
    context = {"title": "Prune all jobs", "door": "Prune", "back": back, "why": reason}
    return rendered(request, DOORS["prune"], _look_at_all(now), context)


def _pages(now: datetime) -> Iterator[tuple[list[Keeps], bool]]:
    """Jobs with a retention, some at a time, and whether there are jobs after them."""
    rows = Job.objects.order_by("id").only("id", "name", "config")
    for start in range(0, MOST_JOBS, JOBS_A_PAGE):
        page = list(rows[start : start + JOBS_A_PAGE + 1])
        more = len(page) > JOBS_A_PAGE
        yield keeping(page[:JOBS_A_PAGE], now), more
        if not more:
            return


def _prune_all(asked: Asked, now: datetime) -> Gone:
    left = False
    with audited(Action.PRUNE, asked, now=now, details={"jobs": "all"}) as entry:
        for jobs, more in _pages(now):
            done = prune_jobs(jobs, entry=entry, most=MOST_PRUNED - entry.count)
            left = more or done.more
            if entry.count >= MOST_PRUNED:
                break
    return Gone(entry.count, more=left)


def _look_at_all(now: datetime) -> Shown:
    """As far as the first jobs with something to prune: a press would not come further either."""
    known = 0
    for jobs, more in _pages(now):
        known += len(jobs)
        found = outlook(jobs, MOST_PRUNED)
        if found.count or not more:
            return _all_shown(found, known, unseen=more)
    return _all_shown(Outlook(more=True), known, unseen=True)


def _all_shown(found: Outlook, keeping: int, *, unseen: bool) -> Shown:
    facts: list[tuple[str, object]] = [("jobs with a retention", at_least(keeping, more=unseen))]
    if found.count:
        facts += [
            ("jobs affected", at_least(found.jobs, more=found.more or unseen)),
            ("oldest", instant(found.first)),
            ("newest", instant(found.last)),
        ]
    hint = "" if found.count else "Nothing is older than its job keeps it."
    if unseen and not found.count:
        hint = f"Nothing is, of the first {MOST_JOBS:,} jobs; beats see to the others."
    if not keeping:
        hint = "No job has a retention: everything is kept. Set `retention`, such as 30d, in a job."
    return Shown(found.count, facts, said=at_least(found.count, more=found.more or unseen), hint=hint)
