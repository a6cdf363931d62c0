"""Count what the header of every page shows, in one statement over partial indexes.

No count goes beyond `MAX_COUNTED`: with a million dead letters the page must still be fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, QuerySet, Subquery, Value
from django.db.models.sql import AggregateQuery, Query
from django.db.models.sql.constants import SINGLE
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from punctual.console.kit.display import SHAPES
from punctual.jobs.models import HELD, Job
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import RUN_HELD, OccurrenceState, RunState

S = OccurrenceState
MAX_COUNTED = 10_000


@dataclass(frozen=True)
class Kind:
    """What is counted; `page` and `query` lead to the list of the same rows."""

    name: str
    tone: str
    shape: str
    meaning: str
    page: str
    query: Mapping[str, str]


@dataclass(frozen=True)
class HeaderCount:
    kind: Kind
    value: int
    url: str

    @property
    def text(self) -> str:
        return f"{self.value:,}" if self.value <= MAX_COUNTED else f"{MAX_COUNTED:,}+"

    @property
    def drawing(self) -> SafeString:
        return mark_safe(SHAPES[self.kind.shape])  # noqa: S308 - a constant


OCCURRENCES, RUNS, JOBS, DEAD = (
    "admin:punctual_occurrence_changelist",
    "admin:punctual_taskrun_changelist",
    "admin:punctual_job_changelist",
    "punctual_console:dead",
)
STATE, NOW = "state__exact", "now"  # NOW stands for the time of the count
KINDS = (
    Kind("due", "busy", "ring", "Their time has come; the next tick starts them.",
         OCCURRENCES, {STATE: S.PENDING, "run_at__lte": NOW}),
    Kind("running", "busy", "play", "Runs that a worker has begun.",
         RUNS, {STATE: RunState.RUNNING}),
    Kind("dispatched", "busy", "ring", "Fired; no worker has begun yet.",
         OCCURRENCES, {STATE: S.DISPATCHED}),
    Kind("queued", "busy", "bars", "Due, waiting for a slot or for their predecessor.",
         OCCURRENCES, {STATE: S.QUEUED}),
    Kind("retrying", "warn", "turn", "Runs that failed and will be tried again.",
         RUNS, {STATE: RunState.RETRY}),
    Kind("late", "bad", "alert", "Not started within their grace.",
         OCCURRENCES, {STATE: S.PENDING, "late_at__lte": NOW}),
    Kind("dead", "bad", "square", "Dead letters that are not resolved.", DEAD, {}),
    Kind("paused", "warn", "bars", "Jobs an operator holds.", JOBS, {"state": "paused"}),
)  # fmt: skip


def header_counts(now: datetime) -> list[HeaderCount]:
    counts = count_in_one_statement(counted_rows(now))
    return [HeaderCount(kind, counts[kind.name], list_url(kind, now)) for kind in KINDS]


def list_url(kind: Kind, now: datetime) -> str:
    query = {key: now.isoformat() if value is NOW else value for key, value in kind.query.items()}
    return f"{reverse(kind.page)}?{urlencode(query)}" if query else reverse(kind.page)


def counted_rows(now: datetime) -> dict[str, QuerySet[Any]]:
    due = Occurrence.objects.due(now)
    return {
        "due": due,
        # The wider condition is that of an index.
        "running": TaskRun.objects.filter(state__in=RUN_HELD).filter(state=RunState.RUNNING),
        "dispatched": Occurrence.objects.filter(state=S.DISPATCHED),
        "queued": Occurrence.objects.waiting(),
        "retrying": TaskRun.objects.filter(state=RunState.RETRY),
        "late": due.late(now),
        "dead": TaskRun.objects.dead(),
        "paused": Job.objects.registered().filter(HELD),
    }


class SliceCount(AggregateQuery):
    """SELECT COUNT(*) FROM a slice, as `QuerySet.count` does it, but inside another statement."""

    def __init__(self, rows: QuerySet[Any]) -> None:
        # An index alone can answer a constant, an id not.
        limited = rows.order_by().values_list(Value(1))[: MAX_COUNTED + 1].query
        limited.subquery = True
        super().__init__(rows.model, limited)
        self.add_annotation(Count("*"), "counted")

    def get_compiler(self, using: Any = None, connection: Any = None, elide_empty: Any = True) -> Any:  # noqa: FBT002 - Django's signature
        # Compiling the inner query takes an alias; a subquery is only told its connection.
        return super().get_compiler(using or connection.alias, elide_empty=elide_empty)


def count_in_one_statement(named: Mapping[str, QuerySet[Any]]) -> dict[str, int]:
    """Count several querysets in one statement: a SELECT without FROM, with a subquery for each."""
    statement = Query(None)
    for name, rows in named.items():
        statement.add_annotation(Subquery(SliceCount(rows)), name)
    row = statement.get_compiler(Job.objects.db).execute_sql(SINGLE)
    return dict(zip(named, row, strict=True))
