"""Requests for the console's own pages → pages. Read-only, for whoever may see the ledger."""

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console import workers as staff
from console.context import SEES
from console.overview import WAITS_LONG, beats
from console.pulse import counters
from console.timeline import LANES, SPANS, View, axis, lanes
from jobs.clock import database_now
from jobs.keyset import AFTER, BEFORE, page
from jobs.models import Job

USUAL_SPAN = "1h"
sees = permission_required(SEES, raise_exception=True)


@require_safe
@sees
def pulse(request: HttpRequest) -> HttpResponse:
    """The counters alone, for the pages that keep them fresh."""
    return render(request, "console/pulse.html", {"counters": counters(database_now())})


@require_safe
@sees
def timeline(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("jobs.view_job"):
        raise PermissionDenied
    asked = request.GET
    span = asked.get("span", USUAL_SPAN) if asked.get("span") in SPANS else USUAL_SPAN
    view, search = View.around(database_now(), SPANS[span]), asked.get("q", "").strip()
    found = page(jobs_shown(search), asked.dict(), LANES)
    kept = {"q": search} if search else {}
    context = {
        **admin.site.each_context(request),
        "title": "Timeline",
        "search": search,
        "lanes": lanes(list(found.rows), view),
        "axis": axis(view),
        "view": view,
        "spans": [(name, f"?{urlencode({**kept, 'span': name})}", name == span) for name in SPANS],
        "span": span,
        "earlier": f"?{urlencode({**kept, 'span': span, BEFORE: found.earlier})}" if found.earlier else "",
        "later": f"?{urlencode({**kept, 'span': span, AFTER: found.later})}" if found.later else "",
    }
    return render(request, "console/timeline.html", context)


@require_safe
@sees
def workers(request: HttpRequest) -> HttpResponse:
    now = database_now()
    queues = staff.asked(staff.queues(now))
    context = {
        **admin.site.each_context(request),
        "title": "Beats and workers",
        "now": now,
        "workers": staff.workers(now),
        "beats": beats(now),
        "unsent": staff.unsent(now),
        "waits_long": WAITS_LONG,
        "queues": queues(),
    }
    return render(request, "console/workers.html", context)


def jobs_shown(search: str) -> QuerySet[Job]:
    jobs = Job.objects.registered().order_by("name", "pk")
    return jobs.filter(name__icontains=search) if search else jobs
