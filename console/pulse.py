"""Now → the seven counters at the top of every page, in one statement over partial indexes.

None counts further than `MOST`: on a bad day there are a million of something, and the page that says so
must still be quick.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet, Value
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from jobs.display import SHAPES
from jobs.models import Job
from occurrences.models import Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState

S = OccurrenceState
MOST = 10_000


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
    def shown(self) -> str:
        return f"{self.value:,}" if self.value <= MOST else f"{MOST:,}+"

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


def count_all(named: Mapping[str, QuerySet[Any]]) -> dict[str, int]:
    """Several counts, one statement. Of a constant, for an id would be fetched from behind its index."""
    some = [rows.order_by().values_list(Value(1))[: MOST + 1] for rows in named.values()]
    compiled = [rows.query.sql_with_params() for rows in some]
    parts = ", ".join(f"(SELECT COUNT(*) FROM ({text}) AS counted)" for text, _ in compiled)  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {parts}", [value for _, values in compiled for value in values])
        return dict(zip(named, cursor.fetchone(), strict=True))
