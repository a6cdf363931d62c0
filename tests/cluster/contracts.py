"""A job made of given functions, due in a moment, and what became of it."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from jobs.models import Job, Task
from occurrences.models import Attempt, Occurrence, TaskRun
from tests.cluster.ledgers import start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster
from tests.occurrences.ledger import a_job, a_task

BODIES = "tests.cluster.bodies"
AT_ONCE = {"max_retries": 1, "interval": "1ms"}
NEVER_AGAIN = {"max_retries": 0, "interval": "1ms"}
HASTY = {
    "PUNCTUAL_LEASE": "6s",
    "PUNCTUAL_KILL_AFTER": "2s",
    "PUNCTUAL_CANCEL_GRACE": "4s",
    "PUNCTUAL_SHUTDOWN_GRACE": "6s",
}


def prepare(cluster: Cluster, *, beats: int = 1, **variables: str) -> None:
    """Short patience everywhere; beats that have ticked."""
    cluster.apps = f"{TOOLS},{BODIES}"
    cluster.variables = HASTY | variables
    start_beats(cluster, beats)


def due(
    *names: str, config: dict[str, Any] | None = None, metadata: dict[str, str] | None = None, **tasks: Any
) -> None:
    """One job for each name, all due now; `tasks` maps a function to the number of its steps, or to the
    configuration of one step."""
    now = timezone.now()
    at = (now + timedelta(seconds=1)).isoformat().replace("+00:00", "Z")
    columns = {
        "schedule": f"@once {at}",
        "config": config or {},
        "metadata": metadata or {},
        "origin": "file",
    }
    jobs = [a_job(name, now, **columns) for name in names]
    steps = [step for job in jobs for step in _steps(job, tasks)]
    with transaction.atomic(using=ALIAS):
        Job.objects.using(ALIAS).bulk_create(jobs)
        Task.objects.using(ALIAS).bulk_create(steps)


def _steps(job: Job, tasks: dict[str, Any]) -> list[Task]:
    found: list[Task] = []
    for function, wish in tasks.items():
        for number in range(wish if isinstance(wish, int) else 1):
            columns = {"function": f"{BODIES}.jobs.{function}", "position": len(found)}
            config = wish if isinstance(wish, dict) else {}
            found.append(a_task(job, f"{function}-{number}", config=config, **columns))
    return found


def attempts(job: str) -> list[Attempt]:
    rows = Attempt.objects.using(ALIAS).filter(run__occurrence__job__name=job)
    return list(rows.order_by("run__position", "number"))


def run_states(job: str) -> Counter[str]:
    rows = TaskRun.objects.using(ALIAS).filter(occurrence__job__name=job)
    return Counter(rows.values_list("state", flat=True))


def outcome(job: str) -> str:
    rows = Occurrence.objects.using(ALIAS).filter(job__name=job, finished_at__isnull=False)
    return "".join(rows.values_list("state", flat=True))


def settled(*jobs: str) -> bool:
    return all(outcome(job) for job in jobs)


def story(*jobs: str) -> object:
    """For the message of a test that waits in vain."""
    return {
        job: [(item.number, item.state, item.error, str(item.started_at)) for item in attempts(job)]
        for job in jobs
    }


def wait_settled(cluster: Cluster, *jobs: str, timeout: float = 60.0) -> None:
    cluster.wait_until(lambda: settled(*jobs), timeout=timeout, describe=lambda: story(*jobs))


def wait_noted(cluster: Cluster, source: str, count: int = 1, timeout: float = 60.0) -> None:
    cluster.wait_until(lambda: len(noted(cluster, source)) >= count, timeout=timeout, describe=source)


def noted(cluster: Cluster, source: str) -> list[datetime]:
    """When functions left this behind: `job/what`."""
    rows = cluster.query("SELECT at FROM cluster_app_effect WHERE source = %s ORDER BY at", [source])
    return [at for (at,) in rows]
