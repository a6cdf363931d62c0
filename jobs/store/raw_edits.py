"""Write the versions that edits by raw SQL left out: an occurrence refers to a version that exists (JOB-5).

Beats call this when they plan an edited job, and `definitions` before it changes one. Several edits between
two calls become one version.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from uuid import UUID

from django.db.models import OuterRef, Subquery

from punctual.jobs.definition.document import Definition
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import task_id
from punctual.jobs.models import Job, JobVersion, Task
from punctual.jobs.store import rows

AUTHOR = "sql"


def record_raw_edits(jobs: Iterable[Job], *, now: datetime) -> set[UUID]:
    """Insert missing versions and set `version` of these jobs; the caller holds their cursors or their rows.

    Return the jobs that another process is changing at the moment, for which nothing was written. An edit
    locks a job before its cursor: waiting for it would be a deadlock.
    """
    known = {job.id: job for job in jobs}
    newest = _newest_versions(known)
    after = _definitions(known)
    missing = [id_ for id_, job in known.items() if not _is_recorded(job, after[id_], newest.get(id_))]
    if not missing:
        return set()
    free = Job.objects.filter(id__in=missing).order_by("id").select_for_update(no_key=True, skip_locked=True)
    locked = {job.id: job for job in free}
    for id_, job in locked.items():
        number = newest[id_].number + 1 if id_ in newest else 1
        job.version = known[id_].version = max(number, job.version)
    # Only the version: a beat never writes a column that users edit.
    Job.objects.bulk_create(
        locked.values(), update_conflicts=True, unique_fields=["id"], update_fields=["version"]
    )
    JobVersion.objects.bulk_create(
        JobVersion(
            job=job,
            number=job.version,
            author=AUTHOR,
            reason="edited by raw SQL" if id_ in newest else "inserted by raw SQL",
            before=newest[id_].after if id_ in newest else None,
            after=after[id_].to_json(),
            created_at=_edited_at(job, newest.get(id_), now),
        )
        for id_, job in locked.items()
    )
    return set(missing) - set(locked)


def _newest_versions(jobs: Mapping[UUID, Job]) -> dict[UUID, JobVersion]:
    numbers = JobVersion.objects.filter(job=OuterRef("job")).order_by("-number").values("number")[:1]
    versions = JobVersion.objects.filter(job__in=list(jobs), number=Subquery(numbers)).defer("before")
    return {version.job_id: version for version in versions.order_by()}


def _definitions(jobs: Mapping[UUID, Job]) -> dict[UUID, Definition]:
    tasks = {id_: list(_valid_tasks(jobs[id_], items)) for id_, items in rows.read_tasks(jobs).items()}
    definitions = rows.read_definitions(jobs, tasks)
    return {id_: rows.as_removed(item) if jobs[id_].removed else item for id_, item in definitions.items()}


def _valid_tasks(job: Job, tasks: Iterable[Task]) -> Iterator[Task]:
    """Leave out tasks that raw SQL inserted with another id: no run could refer to them (JOB-1)."""
    for task in tasks:
        if task.id == task_id(job.id, task.name):
            yield task
        else:
            problem = f"the id of the task {task.name!r} does not follow from its name: it is left out"
            emit(Event.JOB_UNPLANNABLE, job=job.name, problem=problem)


def _is_recorded(job: Job, definition: Definition, newest: JobVersion | None) -> bool:
    return newest is not None and newest.number == job.version and newest.after == definition.to_json()


def _edited_at(job: Job, newest: JobVersion | None, now: datetime) -> datetime:
    """An edit of the job's own columns stamps `updated_at`; one of its tasks or metadata does not."""
    if newest is not None and job.updated_at <= newest.created_at:
        return now
    return job.updated_at
