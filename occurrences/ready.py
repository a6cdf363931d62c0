"""Runs that may start → what their messages have to say: kept from their making, or read back."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q

from occurrences.arrays import Ids, IdText
from occurrences.models import TaskRun
from occurrences.states import RunState


class Ready(NamedTuple):
    """A released run, and the facts its message is made of."""

    run_id: str
    occurrence_id: str
    task_id: str
    attempts_made: int
    job: str
    task: str
    scheduled_for: datetime
    mode: str
    queue: str
    task_timeout: str
    bundle: bool


# In the order of the fields above.
COLUMNS = (
    IdText("id"),
    IdText("occurrence_id"),
    IdText("task_id"),
    "attempts_made",
    "occurrence__job__name",
    "task__name",
    "occurrence__scheduled_for",
    "occurrence__config__mode",
    "policy__queue",
    "policy__task_timeout",
    "policy__bundle",
)


ALL = """
    SELECT count(*) FROM (
        SELECT id FROM occurrences_taskrun
        WHERE id = ANY(%s::uuid[]) AND state = 'scheduled' AND dispatched_at IS NULL
        AND available_at IS NOT NULL
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    ) AS held
    """


def hold(runs: Sequence[Ready]) -> Sequence[Ready]:
    """The same of runs made a moment ago: nearly always all of them, so their number says enough."""
    ids = Ids(run.run_id for run in runs)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(ALL, [ids.array])
            if cursor.fetchone()[0] == len(ids):
                return runs
    mine = held(ids)
    return runs if len(mine) == len(runs) else [run for run in runs if run.run_id in mine]


def held(run_ids: Collection[UUID] | Collection[str], lost_since: datetime | None = None) -> set[str]:
    """Those that may be sent now, locked; what another process is sending at this moment is left to it."""
    unsent = Q(dispatched_at=None)
    due = unsent if lost_since is None else unsent | Q(dispatched_at__lte=lost_since)
    rows = TaskRun.objects.filter(due, id__any=run_ids, state=RunState.SCHEDULED, available_at__isnull=False)
    # In the order of ids, and not in that of the model, which joins the occurrences and would lock them too.
    locked = rows.order_by("id").select_for_update(skip_locked=True, no_key=True)
    return set(locked.values_list(IdText("id"), flat=True))


def read(run_ids: Collection[UUID] | Collection[str]) -> list[Ready]:
    """The runs of an occurrence stand together, in order."""
    rows = TaskRun.objects.filter(id__any=run_ids).order_by("occurrence_id", "position")
    return [Ready(*row) for row in rows.values_list(*COLUMNS)]
