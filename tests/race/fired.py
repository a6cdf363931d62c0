"""A job whose next instant has come: its runs are released, and nobody has taken their messages."""

from typing import Any

from jobs import Job, Retry
from occurrences.models import TaskRun
from tests.harness import Harness


def noop(ctx: object) -> None: ...


def declare(tasks: int = 2, **options: Any) -> None:
    job = Job("job", "*/10 * * * * *", retry=Retry(0), **options)
    for number in range(tasks):
        job.task(name=f"step {number}")(noop)


def fired(harness: Harness) -> list[TaskRun]:
    """The runs of the next instant, released."""
    harness.pass_time(seconds=10)
    harness.tick(sweeping=False)
    harness.lose_messages()
    at = harness.now
    rows = TaskRun.objects.filter(occurrence__scheduled_for=at).order_by("position")
    return list(rows)
