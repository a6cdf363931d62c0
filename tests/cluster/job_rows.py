"""Insert many jobs as rows, and compute the instants that their schedules name."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Pool
from tests.cluster.processes import ALIAS
from tests.occurrences.factories import a_job, a_task

FUNCTIONS = "tests.cluster.tools.jobs"


def insert_jobs(
    names: Iterable[str],
    schedule: str,
    *,
    function: str = "effect",
    tasks: int = 1,
    metadata: Mapping[str, str] | None = None,
    **config: Any,
) -> list[Job]:
    """Insert jobs in bulk: ten thousand take a second or two. A database trigger creates the cursors."""
    now = timezone.now()
    columns = {"schedule": schedule, "config": config, "metadata": metadata or {}, "origin": "file"}
    jobs = [a_job(name, now, **columns) for name in names]
    steps = [
        a_task(job, f"step-{number}", position=number, function=f"{FUNCTIONS}.{function}")
        for job in jobs
        for number in range(tasks)
    ]
    with transaction.atomic(using=ALIAS):  # a beat must not see a job without its tasks
        Job.objects.using(ALIAS).bulk_create(jobs, batch_size=2000)
        Task.objects.using(ALIAS).bulk_create(steps, batch_size=2000)
    return jobs


def make_pool(name: str, size: int) -> None:
    Pool.objects.using(ALIAS).create(name=name, size=size)


def owed_instants(jobs: Collection[Job], start: datetime, end: datetime) -> set[tuple[str, datetime]]:
    """The instants in (start, end] by the schedules' texts, computed by the pure functions only."""
    return {(job.name, instant) for job in jobs for instant in schedule_of(job).between(start, end)}
