"""The facts that the message of a run is made of."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from punctual.occurrences.models import TaskRun
from punctual.occurrences.querysets import IdText


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


def read_ready(run_ids: Collection[UUID] | Collection[str]) -> list[Ready]:
    """The facts of these runs, grouped by occurrence and in order of their position."""
    rows = TaskRun.objects.filter(id__any=run_ids).order_by("occurrence_id", "position")
    return [Ready(*row) for row in rows.values_list(*COLUMNS)]
