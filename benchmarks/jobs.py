"""Measure `jobs apply` for 10,000 new, unchanged and changed jobs: time, and statements per batch.

The baseline is a bare `bulk_create` of the same rows in the same run.

    python benchmarks/jobs.py [JOBS]

Starts its own PostgreSQL and Redis-compatible server. Ratios above 1 are the cost of validating, comparing,
locking, versioning and re-planning, relative to the bare inserts. Every figure is one run.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

# Without this, the folder of this script would come first on the path.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.stack import stack  # noqa: E402

JOBS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000


def fleet(schedule: str) -> dict[str, Any]:
    task = {"name": "step", "function": "punctual.beat.periodic_tasks.importer.send"}
    return {
        "jobs": [
            {
                "name": f"job {n}",
                "schedule": schedule.format(n % 60),
                "config": {"retry": {"max_retries": n % 5, "interval": "30s"}, "queue": "bulk"},
                "metadata": {"team": f"team {n % 100}", "celery_task": "shop.report"},
                "tasks": [task],
            }
            for n in range(JOBS)
        ]
    }


def measure_call(call: Callable[[], object]) -> tuple[float, float, int]:
    """Elapsed seconds, processor seconds of this process, and statements sent."""
    from django.db import connection

    sent = 0

    def count(execute: Any, *args: Any) -> Any:
        nonlocal sent
        sent += 1
        return execute(*args)

    with connection.execute_wrapper(count):
        started, computing = perf_counter(), process_time()
        call()
        return perf_counter() - started, process_time() - computing, sent


def apply(path: Path, *words: str) -> None:
    from django.core.management import call_command

    call_command("punctual", "jobs", "apply", str(path), *words, stdout=StringIO())


def insert_bare(document: dict[str, Any]) -> None:
    """Insert the same three rows per job, and nothing else."""
    from django.db import transaction

    from punctual.jobs.clock import database_now
    from punctual.jobs.ids import job_id, task_id
    from punctual.jobs.models import Job, JobVersion, Task

    now = database_now()
    stamps = {"created_at": now, "updated_at": now}
    jobs, tasks, versions = [], [], []
    for item in document["jobs"]:
        id_ = job_id(item["name"])
        plain = {key: item[key] for key in ("name", "schedule", "config", "metadata")}
        jobs.append(Job(id=id_, origin="file", **plain, **stamps))
        for position, step in enumerate(item["tasks"]):
            tasks.append(Task(id=task_id(id_, step["name"]), job_id=id_, position=position, **step, **stamps))
        versions.append(JobVersion(job_id=id_, number=1, author="bare", after=item, created_at=now))
    with transaction.atomic():
        Job.objects.bulk_create(jobs, batch_size=1000)
        Task.objects.bulk_create(tasks, batch_size=1000)
        JobVersion.objects.bulk_create(versions, batch_size=1000)


def measure(folder: Path) -> None:
    from django.core.management import call_command

    from punctual.beat.tick import run_once
    from punctual.jobs.clock import database_now
    from punctual.jobs.models import Job

    first, second = folder / "first.json", folder / "second.json"
    first.write_text(json.dumps(fleet("{} * * * *")))
    second.write_text(json.dumps(fleet("{} 2 * * *")))
    yaml = folder / "second.yaml"
    batches = max(1, JOBS / 1000)

    base, computing, sent = measure_call(lambda: insert_bare(fleet("{} * * * *")))
    report("bare bulk_create", base, computing, sent, batches=batches, base=base)
    Job.objects.all().delete()

    report("apply, all new", *measure_call(lambda: apply(first)), batches=batches, base=base)
    report("apply, unchanged", *measure_call(lambda: apply(first)), batches=batches, base=base)
    run_once(database_now(), sweeping=False)  # every job has its next occurrence planned
    report(
        "dry run, all changed", *measure_call(lambda: apply(second, "--dry-run")), batches=batches, base=base
    )
    report("apply, all changed", *measure_call(lambda: apply(second)), batches=batches, base=base)
    export = ("punctual", "jobs", "export", "--output", str(yaml))
    report(
        "export as YAML",
        *measure_call(lambda: call_command(*export, stdout=StringIO())),
        batches=batches,
        base=base,
    )
    report("apply YAML, unchanged", *measure_call(lambda: apply(yaml)), batches=batches, base=base)


def report(what: str, seconds: float, computing: float, sent: int, *, batches: float, base: float) -> None:
    line = f"{what:24} {seconds:7.2f} s ({computing:6.2f} s computing)  {JOBS / seconds:9,.0f} jobs/s"
    print(f"{line}  {sent / batches:6.1f} statements a batch  {seconds / base:5.2f} × bare", flush=True)


if __name__ == "__main__":
    with stack() as servers:
        print(f"{JOBS:,} jobs with one task each, in batches of 1,000")
        measure(servers.folder)
