"""Bundles on a real worker: the other runs of a message survive a run that kills its process."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from punctual.execution.models import Pace
from punctual.jobs.models import Job, Task
from tests.cluster import queues
from tests.cluster.ledger_queries import runs_of
from tests.cluster.processes import ALIAS, Cluster
from tests.cluster.scenarios import (
    BEHAVIOURS,
    RETRY_ONCE,
    attempt_summary,
    attempts,
    note_times,
    outcome,
    prepare,
    wait_until_settled,
)
from tests.occurrences.factories import a_job, a_task

pytestmark = [pytest.mark.cluster]

QUICK = [f"quick-{number:02}" for number in range(30)]
UNRULY = {"sleeper": "ten_seconds", "raiser": "raises", "killer": "poison_once"}


def due_together(functions: dict[str, str], *, retry: dict[str, Any] | None = None) -> None:
    """Insert one job per function, all due at the same moment, all measured as short."""
    now = timezone.now()
    at = (now + timedelta(seconds=2)).isoformat().replace("+00:00", "Z")
    columns = {"schedule": f"@once {at}", "config": {"retry": retry or RETRY_ONCE}, "origin": "file"}
    jobs = [a_job(name, now, **columns) for name in functions]
    tasks = [
        a_task(job, function=f"{BEHAVIOURS}.jobs.{function}")
        for job, function in zip(jobs, functions.values(), strict=True)
    ]
    with transaction.atomic(using=ALIAS):
        Job.objects.using(ALIAS).bulk_create(jobs)
        Task.objects.using(ALIAS).bulk_create(tasks)
        Pace.objects.using(ALIAS).bulk_create(
            Pace(task=task, p95=0.0001, samples=50, measured_at=now) for task in tasks
        )


@pytest.mark.req("TSK-3", "TSK-5")
def test_in_a_bundle_with_a_sleeper_a_raiser_and_a_killer_every_other_run_completes(cluster: Cluster) -> None:
    prepare(cluster, WORKER_SLOTS="1", PUNCTUAL_LEASE="30s")
    due_together(dict.fromkeys(QUICK, "quick") | UNRULY)
    cluster.wait_until(
        lambda: runs_of().filter(dispatched_at__isnull=False).count() == len(QUICK) + len(UNRULY),
        timeout=60,
        describe=lambda: Counter(runs_of().values_list("state", flat=True)),
    )
    assert queues.length(cluster, "default") == 1, "all of them share one message"
    cluster.start_worker(concurrency=2)
    wait_until_settled(cluster, *QUICK, *UNRULY)

    (sleeper,) = attempts("sleeper")
    assert (sleeper.state, outcome("sleeper")) == ("success", "completed")
    assert [item.state for item in attempts("raiser")] == ["failed", "failed"]
    assert [item.state for item in attempts("killer")] == ["lost", "success"], attempt_summary("killer")
    for name in QUICK:
        *lost, last = attempts(name)
        # Runs before the killer in the message may be done but not recorded: they run again (at least once).
        assert (outcome(name), last.state, {item.state for item in lost} <= {"lost"}) == (
            "completed",
            "success",
            True,
        ), attempt_summary(name)
        assert len(note_times(cluster, f"{name}/end")) == len(lost) + 1, "an attempt for every start"
        assert last.finished_at is not None
        assert sleeper.finished_at is not None
        assert last.finished_at < sleeper.finished_at, "no run waited for the sleeper or for a lease"
    attempts_made = dict(runs_of().values_list("occurrence__job__name", "attempts_made"))
    assert attempts_made == {name: len(attempts(name)) for name in [*QUICK, *UNRULY]}
