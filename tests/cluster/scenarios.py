"""Insert jobs that are due now, and read what happened to them."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from tests.cluster.ledger_queries import start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster
from tests.occurrences.factories import a_job, a_task

BEHAVIOURS = "tests.cluster.behaviours"
RETRY_ONCE = {"max_retries": 1, "interval": "1ms"}
NO_RETRY = {"max_retries": 0, "interval": "1ms"}
SHORT_TIMEOUTS = {
    "PUNCTUAL_LEASE": "6s",
    "PUNCTUAL_KILL_AFTER": "2s",
    "PUNCTUAL_CANCEL_GRACE": "4s",
    "PUNCTUAL_SHUTDOWN_GRACE": "6s",
}


def prepare(cluster: Cluster, *, beats: int = 1, **variables: str) -> None:
    """Configure short timeouts and start beats; return when they have ticked."""
    cluster.apps = f"{TOOLS},{BEHAVIOURS}"
    cluster.variables = SHORT_TIMEOUTS | variables
    start_beats(cluster, beats)


def insert_due_jobs(
    *names: str, config: dict[str, Any] | None = None, metadata: dict[str, str] | None = None, **tasks: Any
) -> None:
    """Insert one job per name, all due in a second; `tasks` maps a function to its number of steps, or to
    the configuration of one step."""
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
    steps: list[Task] = []
    for function, count_or_config in tasks.items():
        for number in range(count_or_config if isinstance(count_or_config, int) else 1):
            name = function if "." in function else f"{BEHAVIOURS}.jobs.{function}"
            columns = {"function": name, "position": len(steps)}
            config = count_or_config if isinstance(count_or_config, dict) else {}
            step = f"{function.rpartition('.')[2]}-{number}"
            steps.append(a_task(job, step, config=config, **columns))
    return steps


def attempts(job: str) -> list[Attempt]:
    rows = Attempt.objects.using(ALIAS).filter(run__occurrence__job__name=job)
    return list(rows.order_by("run__position", "number"))


def run_states(job: str) -> Counter[str]:
    rows = TaskRun.objects.using(ALIAS).filter(occurrence__job__name=job)
    return Counter(rows.values_list("state", flat=True))


def outcome(job: str) -> str:
    rows = Occurrence.objects.using(ALIAS).filter(job__name=job, finished_at__isnull=False)
    return "".join(rows.values_list("state", flat=True))


def all_settled(*jobs: str) -> bool:
    return all(outcome(job) for job in jobs)


def attempt_summary(*jobs: str) -> object:
    """Attempts by job, for the message of a test that times out."""
    return {
        job: [(item.number, item.state, item.error, str(item.started_at)) for item in attempts(job)]
        for job in jobs
    }


def wait_until_settled(cluster: Cluster, *jobs: str, timeout: float = 60.0) -> None:
    cluster.wait_until(lambda: all_settled(*jobs), timeout=timeout, describe=lambda: attempt_summary(*jobs))


def wait_for_note(cluster: Cluster, source: str, count: int = 1, timeout: float = 60.0) -> None:
    cluster.wait_until(lambda: len(note_times(cluster, source)) >= count, timeout=timeout, describe=source)


def release(cluster: Cluster, job: str) -> None:
    """Let a run of `until_released` end."""
    cluster.execute(
        "INSERT INTO cluster_app_effect (source, attempt, at) VALUES (%s, 0, %s)",
        [f"{job}/release", timezone.now()],
    )


def note_times(cluster: Cluster, source: str) -> list[datetime]:
    """When functions wrote this note: `job/what`."""
    rows = cluster.query("SELECT at FROM cluster_app_effect WHERE source = %s ORDER BY at", [source])
    return [at for (at,) in rows]
