"""Declarations in code → rows: new, preserved, overridden, removed; all of it or nothing (JOB-10).

Any number of processes may sync at once: rows are locked and written in id order, new ones are
inserted with conflicts ignored, so the outcome is the same and nobody deadlocks. Only definition
columns are written; whether a job is enabled or paused is the operator's business.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from jobs import declare
from jobs.errors import DefinitionError
from jobs.ids import job_id, task_id
from jobs.models import Job, Origin, Task
from jobs.registry import registry

JOB_COLUMNS = ("schedule", "config", "metadata", "origin", "removed_at")
TASK_COLUMNS = ("function", "position", "config", "retired_at")
BATCH = 1000


@dataclass(frozen=True)
class Synced:
    """Names by what became of them."""

    new: tuple[str, ...]
    preserved: tuple[str, ...]
    overridden: tuple[str, ...]
    removed: tuple[str, ...]


def sync(now: datetime) -> Synced:
    declared = sorted(registry.jobs.values(), key=attrgetter("name"))
    for job in declared:
        if not job.tasks:
            raise DefinitionError("tasks", [], "a job needs at least one task", owner=job.name)
    with transaction.atomic():
        rows = _locked_rows(declared)
        wanted = [_job_row(job, now) for job in declared]
        new = [job for job in wanted if job.id not in rows]
        Job.objects.bulk_create(sorted(new, key=attrgetter("id")), ignore_conflicts=True, batch_size=BATCH)
        changed_tasks = _sync_tasks(declared, now)
        return _sync_jobs(rows, wanted, changed_tasks, now)


def _locked_rows(declared: Iterable[declare.Job]) -> dict[UUID, Job]:
    names = [job.name for job in declared]
    query = Job.objects.filter(Q(origin=Origin.CODE) | Q(name__in=names))
    # no_key, here and wherever rows are locked: a plain FOR UPDATE would also stop inserts that refer
    # to the row, and an edit (job, then its cursor) and a plan (cursor, then job) would deadlock.
    return {row.id: row for row in query.order_by("id").select_for_update(no_key=True)}


def _job_row(job: declare.Job, now: datetime) -> Job:
    return Job(
        id=job_id(job.name),
        name=job.name,
        schedule=job.schedule,
        config=job.config,
        metadata=job.metadata,
        origin=Origin.CODE,
        created_at=now,
        updated_at=now,
    )


def _sync_jobs(rows: dict[UUID, Job], wanted: list[Job], changed_tasks: set[UUID], now: datetime) -> Synced:
    new = [job for job in wanted if job.id not in rows]
    overridden: list[Job] = []
    for job in wanted:
        row = rows.get(job.id)
        if row is not None and (_differs(row, job, JOB_COLUMNS) or job.id in changed_tasks):
            _copy(job, row, JOB_COLUMNS)
            row.version, row.updated_at = row.version + 1, now
            overridden.append(row)
    wanted_ids = {job.id for job in wanted}
    removed = [row for row in rows.values() if row.id not in wanted_ids and not row.removed]
    Job.objects.bulk_update(overridden, [*JOB_COLUMNS, "version", "updated_at"], batch_size=BATCH)
    Job.objects.filter(id__in=[row.id for row in removed]).update(removed_at=now, updated_at=now)
    touched = {job.id for job in (*new, *overridden)}
    return Synced(
        new=_names(new),
        preserved=_names(job for job in wanted if job.id not in touched),
        overridden=_names(overridden),
        removed=_names(removed),
    )


def _sync_tasks(declared: list[declare.Job], now: datetime) -> set[UUID]:
    """Insert, rewrite and retire tasks; return the jobs whose set of tasks changed."""
    wanted = {task.id: task for job in declared for task in _task_rows(job, now)}
    rows = {row.id: row for row in Task.objects.filter(job__in=[job_id(job.name) for job in declared])}
    new = [task for id_, task in sorted(wanted.items()) if id_ not in rows]
    Task.objects.bulk_create(new, ignore_conflicts=True, batch_size=BATCH)
    changed = [
        rows[id_] for id_ in sorted(rows.keys() & wanted) if _differs(rows[id_], wanted[id_], TASK_COLUMNS)
    ]
    for row in changed:
        _copy(wanted[row.id], row, TASK_COLUMNS)
        row.updated_at = now
    Task.objects.bulk_update(changed, [*TASK_COLUMNS, "updated_at"], batch_size=BATCH)
    gone = [row for id_, row in sorted(rows.items()) if id_ not in wanted and row.retired_at is None]
    Task.objects.filter(id__in=[row.id for row in gone]).update(retired_at=now, updated_at=now)
    return {task.job_id for task in (*new, *changed, *gone)}


def _task_rows(job: declare.Job, now: datetime) -> Iterable[Task]:
    owner = job_id(job.name)
    for position, task in enumerate(job.tasks):
        yield Task(
            id=task_id(owner, task.name),
            job_id=owner,
            name=task.name,
            function=task.function,
            position=position,
            config=task.config,
            created_at=now,
            updated_at=now,
        )


def _differs(row: Job | Task, wanted: Job | Task, columns: Iterable[str]) -> bool:
    return any(getattr(row, column) != getattr(wanted, column) for column in columns)


def _copy(source: Job | Task, target: Job | Task, columns: Iterable[str]) -> None:
    for column in columns:
        setattr(target, column, getattr(source, column))


def _names(jobs: Iterable[Job]) -> tuple[str, ...]:
    return tuple(sorted(job.name for job in jobs))
