"""Requests about dead letters → the page that groups them by error, and replay or purge of what matches.

Nothing happens on GET: it shows how many there are. What dies between that page and the press of its
button is not part of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Count, Func, IntegerField, Max, Min, Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from console.asking import ReasonForm, asked_by, why
from jobs.clock import database_now
from jobs.display import instant
from jobs.durations import duration
from occurrences.models import TaskRun
from recovery.deadletters import Dealt, Wanted, dead, purge_dead, replay_dead

SEES, DEALS = "occurrences.view_taskrun", "occurrences.resolve_taskrun"
MOST_GROUPS = 100
AGES = ("1d", "7d", "30d", "90d")
# Django's own Window refuses an aggregate; the databases do not.
OF_ALL = Func(Count("*"), template="SUM(%(expressions)s) OVER ()", output_field=IntegerField())


@dataclass(frozen=True)
class Act:
    label: str
    meaning: str
    do: Callable[..., Dealt]
    done: str


ACTS = {
    "replay": Act(
        "Replay", "Each runs again, as a new occurrence of its one task.", replay_dead, "are replayed"
    ),
    "purge": Act(
        "Purge", "They stay in the ledger and count as dealt with; nothing runs.", purge_dead, "are purged"
    ),
}


@dataclass(frozen=True)
class Row:
    """Dead letters with the same error, the newest of them, and what can be done with all."""

    newest: TaskRun
    count: int
    first: datetime
    last: datetime
    runs: str
    acts: list[tuple[str, str]]


@require_safe
def dead_letters(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm(SEES):
        raise PermissionDenied
    now = database_now()
    wanted, allowed = wanted_in(request.GET, now), request.user.has_perm(DEALS)
    rows, total = rows_of(wanted, allowed=allowed)
    context = {
        **admin.site.each_context(request),
        "title": "Dead letters",
        "now": now,
        "search": wanted.search,
        "ages": [(age, age == request.GET.get("older")) for age in AGES],
        "rows": rows,
        "capped": len(rows) == MOST_GROUPS,
        "total": total,
        "acts": acts_on(wanted) if allowed and total else [],
    }
    return render(request, "console/dead.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def deal(request: HttpRequest, name: str) -> HttpResponse:
    if name not in ACTS:
        raise Http404(f"nothing is called {name!r}")
    if not request.user.has_perm(DEALS):
        raise PermissionDenied
    act = ACTS[name]
    now, reason = database_now(), why(request)
    wanted = wanted_in(request.POST if request.method == "POST" else request.GET, now)
    if request.method != "POST" or not reason.is_valid():
        return asked_first(request, act, wanted, reason, now)
    dealt = act.do(wanted, asked=asked_by(request, reason), now=now)
    level = messages.SUCCESS if dealt.count else messages.WARNING
    messages.add_message(request, level, f"{dealt.count} dead letters {act.done}.")
    return HttpResponseRedirect(reverse("console:dead"))


def asked_first(
    request: HttpRequest, act: Act, wanted: Wanted, reason: ReasonForm, now: datetime
) -> HttpResponse:
    held = replace(wanted, before=wanted.before or now)
    facts = {key: value for key, value in filters(wanted).items() if key not in ("before", "runs")}
    if wanted.before:
        facts["dead since before"] = instant(wanted.before)
    context = {
        **admin.site.each_context(request),
        "title": f"{act.label} dead letters",
        "label": act.label,
        "meaning": act.meaning,
        "count": dead(held).count(),
        "what": "dead letters",
        "facts": facts.items(),
        "held": filters(held).items(),
        "danger": act.do is purge_dead,
        "why": reason,
        "back": reverse("console:dead"),
    }
    return render(request, "console/confirm.html", context)


def wanted_in(asked: QueryDict, now: datetime) -> Wanted:
    """What cannot be read is refused: a filter that is overlooked would mean all of them."""
    try:
        ids = tuple(UUID(text) for text in asked.get("runs", "").split(",")) if "runs" in asked else ()
        older = duration(asked["older"]) if asked.get("older") else None
        before = instant_in(asked.get("before", ""))
    except ValueError as error:
        raise BadRequest(f"dead letters: {error}") from None
    return Wanted(
        ids=ids,
        job=asked.get("job", ""),
        task=asked.get("task", ""),
        fingerprint=asked.get("fingerprint", ""),
        search=asked.get("q", "").strip(),
        before=now - older if older else before,
    )


def instant_in(text: str) -> datetime | None:
    found = datetime.fromisoformat(text) if text else None
    return found.replace(tzinfo=UTC) if found and found.tzinfo is None else found


def filters(wanted: Wanted) -> dict[str, str]:
    named = {
        "runs": ",".join(map(str, wanted.ids)),
        "job": wanted.job,
        "task": wanted.task,
        "fingerprint": wanted.fingerprint,
        "q": wanted.search,
        "before": wanted.before.isoformat() if wanted.before else "",
    }
    return {key: value for key, value in named.items() if value}


def rows_of(wanted: Wanted, *, allowed: bool) -> tuple[list[Row], int]:
    """The commonest error first, and how many there are of all: one pass over the index on fingerprints.

    An error without a fingerprint has no address of its own: an empty one means any.
    """
    errors = dead(wanted).order_by().values_list("fingerprint")
    counted = errors.annotate(found=Count("*"), first=Min("finished_at"), last=Max("finished_at"))
    totaled = counted.annotate(total=OF_ALL)
    groups = list(totaled.order_by("-found", "-last")[:MOST_GROUPS])
    newest = newest_of([(name, last) for name, _, _, last, _ in groups])
    rows = [
        Row(
            newest[name],
            count,
            first,
            last,
            runs_url(name),
            acts_on(replace(wanted, fingerprint=name)) if allowed and name else [],
        )
        for name, count, first, last, _ in groups
        if name in newest
    ]
    return rows, int(groups[0][-1]) if groups else 0


def newest_of(groups: Sequence[tuple[str, datetime]]) -> dict[str, TaskRun]:
    wanted = reduce(or_, (Q(fingerprint=name, finished_at=last) for name, last in groups), Q(pk__in=[]))
    rows = TaskRun.objects.dead().filter(wanted).select_related("task__job").defer("policy").order_by("id")
    return {row.fingerprint: row for row in rows}


def runs_url(fingerprint: str) -> str:
    query = urlencode({"state__exact": "dlq", "fingerprint__exact": fingerprint})
    return f"{reverse('admin:occurrences_taskrun_changelist')}?{query}"


def acts_on(wanted: Wanted) -> list[tuple[str, str]]:
    query = urlencode(filters(wanted))
    return [(act.label, f"{reverse('console:deal', args=[name])}?{query}") for name, act in ACTS.items()]
