"""Job ids → their cursors with their jobs, as much of them as planning needs.

A beat plans a thousand at a time: the models are filled by hand.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from jobs.models import Job
from occurrences.arrays import Ids
from occurrences.filled import filled
from occurrences.models import Cursor

CURSOR = ("job_id", "settled_until", "planned_until", "plan_at", "problem", "starts")
JOB = (
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


def read(jobs: Collection[UUID] | Collection[str]) -> list[Cursor]:
    rows = Cursor.objects.filter(job__any=Ids(jobs)).order_by("plan_at", "job_id")
    columns = rows.values_list(*CURSOR, *(f"job__{name}" for name in JOB[1:]))
    return [made(row) for row in columns]


def made(row: tuple[Any, ...]) -> Cursor:
    """From the columns of both, in order; the key of both is the same."""
    job = filled(Job, JOB, (row[0], *row[len(CURSOR) :]))
    return filled(Cursor, CURSOR, row[: len(CURSOR)], {"job": job})
