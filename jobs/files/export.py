"""Write the rows of jobs as a document that `jobs apply` reads back."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import UnknownJobError
from punctual.jobs.ids import job_id
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import OWNED
from punctual.jobs.store.rows import BATCH, batches, read_definitions, read_tasks


def export_jobs(names: Sequence[str] = ()) -> dict[str, Any]:
    """Return all jobs, or the jobs named, as a document sorted by name."""
    jobs = {job.name: (job, definition) for job, definition in read_jobs(names) if not job.removed}
    for name in names:
        if name not in jobs:
            raise UnknownJobError(name)
    return {"jobs": [_job_json(*jobs[name]) for name in sorted(jobs)]}


def read_jobs(names: Sequence[str]) -> Iterator[tuple[Job, Definition]]:
    """Read the jobs named, or all, with their definitions; two statements per batch."""
    slices = batches([job_id(name) for name in names])
    job_batches = (list(Job.objects.filter(id__in=ids)) for ids in slices) if names else _all_jobs()
    for batch in job_batches:
        jobs = {job.id: job for job in batch}
        definitions = read_definitions(jobs, read_tasks(jobs))
        yield from ((job, definitions[id_]) for id_, job in jobs.items())


def _all_jobs() -> Iterator[list[Job]]:
    jobs = Job.objects.order_by("id").iterator(chunk_size=BATCH)
    while batch := list(islice(jobs, BATCH)):
        yield batch


def _job_json(job: Job, definition: Definition) -> dict[str, Any]:
    return {
        "name": job.name,
        **({"origin": job.origin} if Origin(job.origin) in OWNED else {}),
        "schedule": job.schedule,
        "enabled": job.enabled,
        "config": _sort_keys(job.config),
        "metadata": _sort_keys(job.metadata),
        "tasks": [{**task, "config": _sort_keys(task["config"])} for task in definition.to_json()["tasks"]],
    }


def _sort_keys(value: Any) -> Any:
    """Sort the keys of objects: PostgreSQL and SQLite return them in different orders."""
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return [_sort_keys(item) for item in value] if isinstance(value, list) else value
