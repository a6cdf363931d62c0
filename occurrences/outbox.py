"""The runs that may be sent to the broker: lock them, and read what their messages say."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q

from punctual.occurrences.database.arrays import Ids, IdText
from punctual.occurrences.database.vendor import is_postgresql
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import RunState


class Ready(NamedTuple):
    """A run that may start, and the facts its message is made of."""

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


LOCK_AND_COUNT = """
    SELECT count(*) FROM (
        SELECT id FROM punctual_taskrun
        WHERE id = ANY(%s::uuid[]) AND state = 'scheduled' AND dispatched_at IS NULL
        AND available_at IS NOT NULL
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked
    """


def lock_new(runs: Sequence[Ready]) -> Sequence[Ready]:
    """Lock runs that were created a moment ago and return those that may be sent: nearly always all."""
    ids = Ids(run.run_id for run in runs)
    if is_postgresql(connection):
        with connection.cursor() as cursor:
            cursor.execute(LOCK_AND_COUNT, [ids.array])
            if cursor.fetchone()[0] == len(ids):
                return runs
    locked = lock_unsent(ids)
    return runs if len(locked) == len(runs) else [run for run in runs if run.run_id in locked]


def lock_unsent(run_ids: Collection[UUID] | Collection[str], lost_since: datetime | None = None) -> set[str]:
    """Lock the runs that may be sent now and return their ids; runs that another process is sending are left
    to it. With `lost_since`, runs sent up to then count as unsent: their messages are lost."""
    unsent = Q(dispatched_at=None)
    due = unsent if lost_since is None else unsent | Q(dispatched_at__lte=lost_since)
    rows = TaskRun.objects.filter(due, id__any=run_ids, state=RunState.SCHEDULED, available_at__isnull=False)
    # Ordered by id: the model's own ordering joins the occurrences and would lock them too.
    locked = rows.order_by("id").select_for_update(skip_locked=True, no_key=True)
    return set(locked.values_list(IdText("id"), flat=True))


def read_ready(run_ids: Collection[UUID] | Collection[str]) -> list[Ready]:
    """The facts of these runs, grouped by occurrence and in order of their position."""
    rows = TaskRun.objects.filter(id__any=run_ids).order_by("occurrence_id", "position")
    return [Ready(*row) for row in rows.values_list(*COLUMNS)]
