"""The runs that may be sent to the broker: lock them, and read what their messages say."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q

from punctual.occurrences.database.arrays import IdText
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


def lock_unsent(
    runs: Collection[UUID] | Collection[Ready], lost_since: datetime | None = None
) -> Sequence[Ready]:
    """Lock the runs that may be sent now and return their facts, which are read unless the caller has them.

    Runs that another process is sending are left to it. With `lost_since`, runs sent up to then count as
    unsent: their messages are lost.
    """
    known = [run for run in runs if isinstance(run, Ready)]
    locked = _lock([run.run_id for run in known] or runs, lost_since)
    return [run for run in known if run.run_id in locked] if known else read_ready(locked)


def _lock(run_ids: Collection[Any], lost_since: datetime | None) -> set[str]:
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
