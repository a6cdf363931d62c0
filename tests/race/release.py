"""Release the runs of a job's next instant; no worker has taken their messages."""

from typing import Any

from punctual import Job, Retry
from punctual.occurrences.models import TaskRun
from tests.harness import Harness


def noop(ctx: object) -> None: ...


def declare(tasks: int = 2, **options: Any) -> None:
    job = Job("job", "*/10 * * * * *", retry=Retry(0), **options)
    for number in range(tasks):
        job.task(name=f"step {number}")(noop)


def release_runs(harness: Harness) -> list[TaskRun]:
    """Tick at the next instant and return its runs."""
    harness.pass_time(seconds=10)
    harness.tick(sweeping=False)
    harness.lose_messages()
    at = harness.now
    rows = TaskRun.objects.filter(occurrence__scheduled_for=at).order_by("position")
    return list(rows)
