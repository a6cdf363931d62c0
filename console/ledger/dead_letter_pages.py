"""The page of dead letters, grouped by error."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Func, IntegerField, Max, Min, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from punctual.console.acting.buttons import Button, dead_letter_buttons
from punctual.console.ledger.dead_letter_query import filter_in
from punctual.jobs.clock import database_now
from punctual.occurrences.models import TaskRun
from punctual.recovery.dead_letters import DeadLetterFilter, find_dead_letters

VIEW_RUNS = "punctual.view_taskrun"
MAX_GROUPS = 100
AGES = ("1d", "7d", "30d", "90d")
# Django's Window refuses an aggregate; the databases accept it.
OF_ALL = Func(Count("*"), template="SUM(%(expressions)s) OVER ()", output_field=IntegerField())


@dataclass(frozen=True)
class ErrorGroup:
    """Dead letters with the same error, the newest of them, and the actions on all."""

    newest: TaskRun
    count: int
    first: datetime
    last: datetime
    runs: str
    buttons: list[Button]


@require_safe
def dead_letters(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm(VIEW_RUNS):
        raise PermissionDenied
    now = database_now()
    which = filter_in(request.GET, now)
    rows, total = error_groups(which, request.user)
    context = {
        **admin.site.each_context(request),
        "title": "Dead letters",
        "now": now,
        "search": which.search,
        "ages": [(age, age == request.GET.get("older")) for age in AGES],
        "rows": rows,
        "capped": len(rows) == MAX_GROUPS,
        "total": total,
        "buttons": dead_letter_buttons(which, request.user) if total else [],
    }
    return render(request, "punctual_console/ledger/dead_letters.html", context)


def error_groups(which: DeadLetterFilter, user: Any) -> tuple[list[ErrorGroup], int]:
    """Group dead letters by error, the most frequent first, and count all of them, in one index scan.

    An error without a fingerprint gets no actions: an empty fingerprint in a filter means any.
    """
    errors = find_dead_letters(which).order_by().values_list("fingerprint")
    counts = errors.annotate(count=Count("*"), first=Min("finished_at"), last=Max("finished_at"))
    groups = list(counts.annotate(total=OF_ALL).order_by("-count", "-last")[:MAX_GROUPS])
    newest = newest_runs([(name, last) for name, _, _, last, _ in groups])
    rows = [
        ErrorGroup(
            newest[name],
            count,
            first,
            last,
            runs_url(name),
            dead_letter_buttons(replace(which, fingerprint=name), user) if name else [],
        )
        for name, count, first, last, _ in groups
        if name in newest
    ]
    return rows, int(groups[0][-1]) if groups else 0


def newest_runs(groups: Sequence[tuple[str, datetime]]) -> dict[str, TaskRun]:
    newest = reduce(or_, (Q(fingerprint=name, finished_at=last) for name, last in groups), Q(pk__in=[]))
    rows = TaskRun.objects.dead().filter(newest).select_related("task__job").defer("policy").order_by("id")
    return {row.fingerprint: row for row in rows}


def runs_url(fingerprint: str) -> str:
    query = urlencode({"state__exact": "dlq", "fingerprint__exact": fingerprint})
    return f"{reverse('admin:punctual_taskrun_changelist')}?{query}"
