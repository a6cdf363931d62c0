"""Now → the seven counters at the top of every page, in one statement over partial indexes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, QuerySet, Value
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from jobs.display import SHAPES
from jobs.models import Job
from occurrences.models import Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState

S = OccurrenceState


@dataclass(frozen=True)
class Kind:
    """`page` and `query` lead to the list of what was counted."""

    name: str
    tone: str
    shape: str
    meaning: str
    page: str
    query: Mapping[str, str]


@dataclass(frozen=True)
class Counter:
    kind: Kind
    value: int
    url: str

    @property
    def drawing(self) -> SafeString:
        return mark_safe(SHAPES[self.kind.shape])  # noqa: S308 - a constant


OCCURRENCES, RUNS, JOBS, DEAD = (
    "admin:occurrences_occurrence_changelist",
    "admin:occurrences_taskrun_changelist",
    "admin:jobs_job_changelist",
    "console:dead",
)
STATE = "state__exact"
KINDS = (
    Kind("due", "busy", "ring", "Their time has come; the next tick starts them.",
         OCCURRENCES, {STATE: S.PENDING}),
    Kind("running", "busy", "play", "A worker is at it, or its message is under way.",
         OCCURRENCES, {STATE: S.RUNNING}),
    Kind("queued", "busy", "bars", "Due, waiting for a slot or for their predecessor.",
         OCCURRENCES, {STATE: S.QUEUED}),
    Kind("retrying", "warn", "turn", "Runs that failed and will be tried again.",
         RUNS, {STATE: RunState.RETRY}),
    Kind("late", "bad", "alert", "Not started within their grace.",
         OCCURRENCES, {STATE: S.PENDING}),
    Kind("dead", "bad", "square", "Dead letters nobody has dealt with.", DEAD, {}),
    Kind("paused", "warn", "bars", "Jobs an operator holds.", JOBS, {"state": "paused"}),
)  # fmt: skip


def counters(now: datetime) -> list[Counter]:
    found = count_all(counted(now))
    return [Counter(kind, found[kind.name], address(kind, now)) for kind in KINDS]


def address(kind: Kind, now: datetime) -> str:
    """The list of what was counted: pending ones up to now, not all that are planned."""
    until = {"scheduled_for_to_0": f"{now:%Y-%m-%d}", "scheduled_for_to_1": f"{now:%H:%M:%S}"}
    query = {**kind.query, **(until if S.PENDING in kind.query.values() else {})}
    return f"{reverse(kind.page)}?{urlencode(query)}" if query else reverse(kind.page)


def counted(now: datetime) -> dict[str, QuerySet[Any]]:
    due = Occurrence.objects.due(now)
    return {
        "due": due,
        "running": Occurrence.objects.active(),
        "queued": Occurrence.objects.waiting(),
        "retrying": TaskRun.objects.filter(state=RunState.RETRY),
        "late": due.late(now),
        "dead": TaskRun.objects.dead(),
        "paused": Job.objects.registered().filter(paused_at__isnull=False),
    }


def count_all(named: dict[str, QuerySet[Any]]) -> dict[str, int]:
    """Several counts, one statement. COUNT(*), for COUNT(id) would fetch every row behind its index."""
    first, *rest = [
        rows.order_by().values_list(Value(name)).annotate(found=Count("*")) for name, rows in named.items()
    ]
    pairs: Iterable[tuple[str, int]] = first.union(*rest, all=True)
    return dict(pairs)
