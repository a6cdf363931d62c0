"""Lock, read and write the rows of jobs, tasks and versions, in batches of constant statements."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.ids import task_id
from punctual.jobs.models import Job, JobVersion, Task

if TYPE_CHECKING:
    from punctual.jobs.store.definitions import Change

BATCH = 1000
JOB_COLUMNS = ["schedule", "config", "metadata", "origin", "removed_at", "enabled", "version", "updated_at"]
TASK_COLUMNS = ["function", "position", "config", "retired_at", "updated_at"]

Item = TypeVar("Item")


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


# -- reading -------------------------------------------------------------------------------------------------


def lock_jobs(jobs: QuerySet[Job]) -> dict[UUID, Job]:
    """Lock the rows in id order and return them by id."""
    # no_key, here and wherever rows are locked: a plain FOR UPDATE would also block inserts that refer to the
    # row, and an edit (job, then its cursor) and a plan (cursor, then job) would deadlock.
    return {job.id: job for job in jobs.order_by("id").select_for_update(no_key=True)}


def read_tasks(jobs: Iterable[UUID]) -> dict[UUID, list[Task]]:
    """Read the current tasks of these jobs in one statement."""
    tasks: dict[UUID, list[Task]] = {}
    for task in Task.objects.current().filter(job__in=list(jobs)):
        tasks.setdefault(task.job_id, []).append(task)
    return tasks


def lock_tasks(jobs: Iterable[UUID]) -> None:
    """Lock tasks before the cursors of their jobs, in the order in which an edit by raw SQL locks them."""
    tasks = Task.objects.filter(job__in=list(jobs)).order_by("id")
    list(tasks.select_for_update(no_key=True).values_list("id"))


def read_definitions(jobs: Mapping[UUID, Job], tasks: Mapping[UUID, list[Task]]) -> dict[UUID, Definition]:
    return {id_: definition_of(job, tasks.get(id_, ())) for id_, job in jobs.items()}


def definition_of(job: Job, tasks: Iterable[Task]) -> Definition:
    """Return the definition that the rows hold, even if raw SQL has made it invalid."""
    current = sorted((task for task in tasks if task.retired_at is None), key=attrgetter("position"))
    steps = tuple(TaskDefinition(task.name, task.function, task.config) for task in current)
    return Definition(job.name, job.schedule, job.config, job.metadata, steps, job.enabled)


def as_removed(definition: Definition) -> Definition:
    """Return the definition as versions record it while its job is removed: it owes nothing."""
    return replace(definition, enabled=False)


# -- writing -------------------------------------------------------------------------------------------------


def insert_jobs(definitions: Mapping[UUID, Definition], change: "Change") -> list[UUID]:
    """Insert new jobs; return those that this call inserted, and not another process at the same moment."""
    if not definitions:
        return []
    jobs = [
        Job(id=id_, name=item.name, created_at=change.now, **_columns(item, change))
        for id_, item in sorted(definitions.items())
    ]
    # An insert waits for a concurrent insert of the same id, so afterwards it is decided which one won.
    Job.objects.bulk_create(jobs, ignore_conflicts=True)
    inserted = Job.objects.filter(id__in=definitions, created_at=change.now, version=1)
    return sorted(inserted.values_list("id", flat=True))


def apply_definition(job: Job, definition: Definition, change: "Change") -> Job:
    """Set the definition columns of a locked row; not saved."""
    for column, value in _columns(definition, change).items():
        setattr(job, column, value)
    job.version, job.removed_at = job.version + 1, None
    return job


def _columns(definition: Definition, change: "Change") -> dict[str, Any]:
    return {
        "schedule": definition.schedule,
        "config": dict(definition.config),
        "metadata": dict(definition.metadata),
        "enabled": definition.enabled,
        "origin": change.origin,
        "updated_at": change.now,
    }


def update_jobs(jobs: list[Job]) -> None:
    """Write the definition columns of locked rows."""
    # INSERT … ON CONFLICT UPDATE: one plain statement for any mix of values.
    Job.objects.bulk_create(jobs, update_conflicts=True, unique_fields=["id"], update_fields=JOB_COLUMNS)


def write_tasks(
    definitions: Mapping[UUID, Definition], current: Mapping[UUID, list[Task]], now: datetime
) -> None:
    """Insert or update the tasks of these definitions and retire those of `current` that they do not name."""
    tasks = [task for id_, item in definitions.items() for task in _task_rows(id_, item, now)]
    Task.objects.bulk_create(
        sorted(tasks, key=attrgetter("id")),
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=TASK_COLUMNS,
    )
    named = {task.id for task in tasks}
    retired = [task.id for id_ in definitions for task in current.get(id_, ()) if task.id not in named]
    if retired:
        Task.objects.filter(id__in=retired).update(retired_at=now, updated_at=now)


def _task_rows(job: UUID, definition: Definition, now: datetime) -> Iterator[Task]:
    for position, task in enumerate(definition.tasks):
        yield Task(
            id=task_id(job, task.name),
            job_id=job,
            name=task.name,
            function=task.function,
            position=position,
            config=dict(task.config),
            created_at=now,
            updated_at=now,
        )


def insert_versions(
    after: Mapping[UUID, Definition],
    before: Mapping[UUID, Definition],
    jobs: Mapping[UUID, Job],
    change: "Change",
    *,
    counts_from: Mapping[UUID, datetime],
) -> None:
    """Record the change of each definition; `jobs` are the updated rows, a new job has version 1."""
    versions = [
        JobVersion(
            job_id=id_,
            number=jobs[id_].version if id_ in jobs else 1,
            author=change.author,
            reason=change.reason,
            before=before[id_].to_json() if id_ in before else None,
            after=definition.to_json(),
            created_at=change.now,
            counts_from=counts_from.get(id_),
        )
        for id_, definition in after.items()
    ]
    JobVersion.objects.bulk_create(versions, ignore_conflicts=True)
