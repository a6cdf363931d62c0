"""Read-only pages about the whole scheduler: header counts, timeline, beats and workers, recovery."""

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from punctual.console.kit.keyset import AFTER, BEFORE, page
from punctual.console.site import VIEW_LEDGER
from punctual.console.status import workers as worker_status
from punctual.console.status.header_counts import header_counts
from punctual.console.status.lock_holders import lock_holders
from punctual.console.status.overview import LONG_WAIT, beats
from punctual.console.status.timeline import LANES_PER_PAGE, SPANS, View, draw_axis, lanes
from punctual.jobs.clock import database_now
from punctual.jobs.models import Job
from punctual.operations.sweep_actions import SWEEPS, preview_all

DEFAULT_SPAN = "1h"
may_view_ledger = permission_required(VIEW_LEDGER, raise_exception=True)


@require_safe
@may_view_ledger
def header_counts_view(request: HttpRequest) -> HttpResponse:
    """Render the header counts alone, for pages that refresh them."""
    return render(
        request, "punctual_console/status/header_counts.html", {"counters": header_counts(database_now())}
    )


@require_safe
@may_view_ledger
def timeline(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("punctual.view_job"):
        raise PermissionDenied
    query = request.GET
    span = query.get("span", DEFAULT_SPAN) if query.get("span") in SPANS else DEFAULT_SPAN
    view, search = View.around(database_now(), SPANS[span]), query.get("q", "").strip()
    jobs = page(listed_jobs(search), query.dict(), LANES_PER_PAGE)
    search_query = {"q": search} if search else {}
    context = {
        **admin.site.each_context(request),
        "title": "Timeline",
        "search": search,
        "lanes": lanes(list(jobs.rows), view),
        "axis": draw_axis(view),
        "view": view,
        "spans": [(name, f"?{urlencode({**search_query, 'span': name})}", name == span) for name in SPANS],
        "span": span,
        "earlier": f"?{urlencode({**search_query, 'span': span, BEFORE: jobs.earlier})}"
        if jobs.earlier
        else "",
        "later": f"?{urlencode({**search_query, 'span': span, AFTER: jobs.later})}" if jobs.later else "",
    }
    return render(request, "punctual_console/status/timeline.html", context)


@require_safe
@may_view_ledger
def workers(request: HttpRequest) -> HttpResponse:
    now = database_now()
    queues = worker_status.measure_queues(worker_status.queues(now))
    context = {
        **admin.site.each_context(request),
        "title": "Beats and workers",
        "now": now,
        "workers": worker_status.workers(now),
        "beats": beats(now),
        "unsent": worker_status.unsent(now),
        "waits_long": LONG_WAIT,
        "queues": queues(),
        "lock_holders": lock_holders(),
    }
    return render(request, "punctual_console/status/workers.html", context)


def listed_jobs(search: str) -> QuerySet[Job]:
    jobs = Job.objects.registered().order_by("name", "pk")
    return jobs.filter(name__icontains=search) if search else jobs


@require_safe
@may_view_ledger
def recovery(request: HttpRequest) -> HttpResponse:
    """Show the sweeps an operator can start, with what each would find now."""
    previews = preview_all(database_now())
    rows = [
        {
            "action": action,
            "preview": previews[action.name],
            "url": reverse("punctual_console:act_on_platform", args=[action.name]),
            "allowed": request.user.has_perm(action.permission),
        }
        for action in SWEEPS
    ]
    context = {**admin.site.each_context(request), "title": "Recovery", "rows": rows}
    return render(request, "punctual_console/acting/recovery.html", context)
