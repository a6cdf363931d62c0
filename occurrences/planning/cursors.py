"""Read cursors together with the columns of their jobs that planning needs.

A beat plans a thousand jobs at a time, so the model instances are built without their constructors.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from punctual.jobs.models import Job
from punctual.occurrences.database.arrays import Ids
from punctual.occurrences.database.filled import filled
from punctual.occurrences.models import Cursor

CURSOR_COLUMNS = ("job_id", "settled_until", "planned_until", "plan_at", "problem", "starts")
JOB_COLUMNS = (
    "id",
    "name",
    "schedule",
    "config",
    "origin",
    "version",
    "enabled",
    "paused_at",
    "removed_at",
    "created_at",
    "updated_at",
)


def read_cursors(jobs: Collection[UUID] | Collection[str]) -> list[Cursor]:
    """The cursors of these jobs, the longest due first."""
    rows = Cursor.objects.filter(job__any=Ids(jobs)).order_by("plan_at", "job_id")
    columns = rows.values_list(*CURSOR_COLUMNS, *(f"job__{name}" for name in JOB_COLUMNS[1:]))
    return [build_cursor(row) for row in columns]


def build_cursor(row: tuple[Any, ...]) -> Cursor:
    """A cursor and its job from the columns of both, in order; they share one key."""
    width = len(CURSOR_COLUMNS)
    job = filled(Job, JOB_COLUMNS, (row[0], *row[width:]))
    return filled(Cursor, CURSOR_COLUMNS, row[:width], {"job": job})
