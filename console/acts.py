"""A button of an occurrence's page → a page that asks first, and then what it says."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.asking import ReasonForm, asked_by, why
from jobs.clock import database_now
from occurrences.models import Occurrence
from occurrences.states import OCCURRENCE_ACTIVE, OCCURRENCE_FINAL, OccurrenceState
from recovery.audit import Asked
from recovery.operate import cancel_occurrences, skip_occurrences
from recovery.replay import replay

CANCELS, REPLAYS = "occurrences.cancel_occurrence", "occurrences.replay_occurrence"
WAITING = (OccurrenceState.PENDING, OccurrenceState.QUEUED)


@dataclass(frozen=True)
class Act:
    """`do` tells how many it changed, and the occurrence to go to."""

    label: str
    permission: str
    states: tuple[OccurrenceState, ...]
    meaning: str
    do: Callable[[UUID, Asked, datetime], tuple[int, UUID]]
    danger: bool = False


def _cancel(id_: UUID, asked: Asked, now: datetime) -> tuple[int, UUID]:
    return cancel_occurrences([id_], asked=asked, now=now), id_


def _skip(id_: UUID, asked: Asked, now: datetime) -> tuple[int, UUID]:
    return skip_occurrences([id_], asked=asked, now=now), id_


def _replay(id_: UUID, asked: Asked, now: datetime) -> tuple[int, UUID]:
    return _made(replay([id_], asked=asked, now=now).made, id_)


def _replay_failed(id_: UUID, asked: Asked, now: datetime) -> tuple[int, UUID]:
    return _made(replay([id_], asked=asked, now=now, failed_only=True).made, id_)


def _made(made: tuple[UUID, ...], id_: UUID) -> tuple[int, UUID]:
    return len(made), made[0] if made else id_


ACTS = {
    "replay": Act(
        "Replay", REPLAYS, OCCURRENCE_FINAL,
        "All its tasks run again, as a new occurrence linked to it.", _replay,
    ),
    "replay-failed": Act(
        "Replay what failed", REPLAYS, OCCURRENCE_FINAL,
        "The tasks that did not succeed run again, as a new occurrence linked to it.", _replay_failed,
    ),
    "cancel": Act(
        "Cancel", CANCELS, OCCURRENCE_ACTIVE,
        "Its runs are told to stop, and whoever waited for its slot starts.", _cancel, danger=True,
    ),
    "skip": Act(
        "Skip", CANCELS, WAITING, "It will not run; the schedule goes on.", _skip, danger=True
    ),
}  # fmt: skip


def offered(one: Occurrence, request: HttpRequest) -> list[tuple[str, str]]:
    """Labels and addresses of what makes sense now and is allowed."""
    return [
        (act.label, reverse("console:act", args=[one.pk, name]))
        for name, act in ACTS.items()
        if one.state in act.states and request.user.has_perm(act.permission)
    ]


@require_http_methods(["GET", "HEAD", "POST"])
def act_on(request: HttpRequest, occurrence_id: UUID, name: str) -> HttpResponse:
    one = get_object_or_404(Occurrence.objects.select_related("job"), pk=occurrence_id)
    act = ACTS.get(name)
    if act is None:
        raise Http404(f"nothing is called {name!r}")
    if not request.user.has_perm(act.permission):
        raise PermissionDenied
    reason = why(request)
    if request.method != "POST" or not reason.is_valid():
        return asked_first(request, act, one, reason)
    changed, where = act.do(one.pk, asked_by(request, reason), database_now())
    if changed:
        messages.success(request, f"{act.label}: done.")
    else:
        messages.warning(request, f"{act.label}: it had gone on meanwhile; nothing was changed.")
    return HttpResponseRedirect(reverse("admin:occurrences_occurrence_change", args=[where]))


def asked_first(request: HttpRequest, act: Act, one: Occurrence, reason: ReasonForm) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": f"{act.label}: {one.job.name}",
        "label": act.label,
        "meaning": act.meaning,
        "count": 1 if one.state in act.states else 0,
        "what": "occurrence",
        "facts": [("job", one.job.name), ("occurrence", one.shown_id), ("state", one.get_state_display())],
        "danger": act.danger,
        "why": reason,
        "back": reverse("admin:occurrences_occurrence_change", args=[one.pk]),
    }
    return render(request, "console/confirm.html", context)
