"""A request about the chores of the safety net → what waits for them, the question, or that one is done."""

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from console.asking import asked_by, why
from console.chores import OFFERS, do, look, look_at_all
from console.context import SEES
from console.entering import rendered, said
from jobs.clock import database_now


@require_safe
@permission_required(SEES, raise_exception=True)
def recovery(request: HttpRequest) -> HttpResponse:
    """All of them, with what each would find."""
    rows = [
        {
            "offer": OFFERS[name],
            "shown": shown,
            "url": reverse("console:chore", args=[name]),
            "allowed": request.user.has_perm(OFFERS[name].permission),
        }
        for name, shown in look_at_all(database_now()).items()
    ]
    context = {**admin.site.each_context(request), "title": "Recovery", "rows": rows}
    return render(request, "console/recovery.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def chore(request: HttpRequest, name: str) -> HttpResponse:
    offer = OFFERS.get(name)
    if offer is None:
        raise Http404(f"nothing is called {name!r}")
    if not request.user.has_perm(offer.permission):
        raise PermissionDenied
    now, reason, back = database_now(), why(request), reverse("console:recovery")
    if request.method == "POST" and reason.is_valid():
        said(request, do(offer, asked_by(request, reason), now))
        return HttpResponseRedirect(back)
    context = {"title": offer.label, "door": offer.label, "back": back, "why": reason}
    return rendered(request, offer, look(offer, now), context)
