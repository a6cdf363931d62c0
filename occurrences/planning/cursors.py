"""Read cursors together with the columns of their jobs that planning needs."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import TextField
from django.db.models.functions import Cast

from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor
from punctual.occurrences.querysets import CursorQuerySet, Ids, IdText

JOB_COLUMNS = (
    "name",
    "schedule",
    "enabled",
    "paused_at",
    "removed_at",
    "paused_until",
    "config",
    "metadata",
    "origin",
    "version",
    "created_at",
    "updated_at",
    "anchored_at",
)
CURSOR_COLUMNS = ("planned_until", "plan_at", "settled_until", "starts", "problem")
JOB_FIELDS = ("id", *JOB_COLUMNS)
CONFIG = JOB_COLUMNS.index("config")
JSON_COLUMNS = ("config", "metadata")


@dataclass(slots=True)
class PlanCursor:
    """A locked cursor and its job, while the job is planned; a thousand model instances take longer."""

    job_id: UUID
    planned_until: datetime | None
    plan_at: datetime | None
    settled_until: datetime
    starts: int
    problem: str
    job: Job
    config: str  # the stored text of the job's configuration


def cursor_of(row: Cursor) -> PlanCursor:
    columns: Any = (getattr(row, name) for name in CURSOR_COLUMNS)
    return PlanCursor(*(row.job_id, *columns, row.job, json.dumps(row.job.config)))


class SeenJob(NamedTuple):
    """A job as it was read under the lock of its cursor, and where the cursor stood then.

    Every edit of a definition resets the cursor (`punctual.jobs.database`), and so does
    planning: as long as the cursor has not moved, the job is as it was read.
    """

    planned_until: datetime | None
    plan_at: datetime | None
    job: Job
    config: str


def line_up(jobs: Iterable[UUID], *, now: datetime) -> None:
    """Tell beats that these jobs have something to catch up; call in the transaction that creates it."""
    with transaction.atomic():
        rows = Cursor.objects.filter(job__in=set(jobs)).order_by("job_id")
        locked = rows.select_for_update(no_key=True).values_list("job_id", "catch_up_at")
        Cursor.objects.filter(job__in=[job for job, at in locked if at is None]).update(catch_up_at=now)


def lock_cursors(due: CursorQuerySet, limit: int, seen: Mapping[str, SeenJob]) -> list[PlanCursor]:
    """Lock due cursors that no other process holds, the longest due first, each with its job.

    The jobs are locked as well: new occurrences refer to them, so the commit would wait for a session that
    holds one.

    `seen` are jobs by the texts of their ids. Others, and those whose cursor has moved since, are read by a
    later statement than the one that locks: within one statement they would be from before the lock.
    """
    rows = due.order_by("plan_at", "job_id").select_for_update(skip_locked=True, no_key=True)
    # A column of the job makes the statement join it, and lock it as well.
    locked = [row[:-1] for row in rows.values_list(IdText("job_id"), *CURSOR_COLUMNS, "job__version")[:limit]]
    jobs = {row[0]: seen[row[0]][2:] for row in locked if row[0] in seen and seen[row[0]][:2] == row[1:3]}
    if unseen := [row[0] for row in locked if row[0] not in jobs]:
        jobs |= _read_jobs(unseen)
    return [PlanCursor(*(jobs[row[0]][0].id, *row[1:], *jobs[row[0]])) for row in locked]


def _read_jobs(ids: Collection[str]) -> dict[str, tuple[Job, str]]:
    rows = Job.objects.filter(id__any=Ids(ids)).order_by().values_list(IdText("id"), *job_columns())
    return {id_: (build_job(id_, row), row[CONFIG]) for id_, *row in rows}


def job_columns(path: str = "") -> list[Any]:
    """JOB_COLUMNS for a query from which `path` leads to the job; JSON as the stored text."""
    return [
        Cast(f"{path}{name}", TextField()) if name in JSON_COLUMNS else f"{path}{name}"
        for name in JOB_COLUMNS
    ]


def build_job(id_: str, row: Sequence[Any]) -> Job:
    """A job from its id and `job_columns`."""
    ordered, in_order = _model_order()
    job = Job.from_db(DEFAULT_DB_ALIAS, ordered, in_order((UUID(id_), *row)))
    for name in JSON_COLUMNS:
        text = getattr(job, name)
        setattr(job, name, {} if text == "{}" else json.loads(text))
    return job


@cache
def _model_order() -> tuple[list[str], Callable[[Sequence[Any]], Collection[Any]]]:
    """The columns in the order of the model, and a function that sorts values of JOB_FIELDS like that."""
    ordered = [field.attname for field in Job._meta.concrete_fields if field.attname in JOB_FIELDS]
    return ordered, itemgetter(*(JOB_FIELDS.index(name) for name in ordered))
