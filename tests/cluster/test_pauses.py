"""Maintenance with real processes: pause, stop the beats, resume, start the beats (JOB-8)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from punctual.jobs.models import Job, Pause
from punctual.occurrences.querysets import OccurrenceQuerySet
from tests.cluster.job_rows import insert_jobs, owed_instants
from tests.cluster.ledger_queries import occurrences_of, start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.early]

RUNS = {"none": 0, "last": 1, "all": None, "compressed": 1}  # None: one for each instant
DOWNTIME = timedelta(seconds=6)


def let_pass(cluster: Cluster, span: timedelta) -> None:
    until = timezone.now() + span
    cluster.wait_until(lambda: timezone.now() > until, timeout=30, describe="time to pass")


def repeats_of(name: str) -> OccurrenceQuerySet:
    return occurrences_of(name).filter(parent__isnull=False)


def skipped_instants(name: str) -> set[datetime]:
    rows = occurrences_of(name).filter(parent=None, state="skipped", reason="paused", spans_until=None)
    return set(rows.values_list("scheduled_for", flat=True))


@pytest.mark.parametrize("cluster", ["postgres", "sqlite"], indirect=True)
@pytest.mark.req("JOB-8")
def test_instants_of_a_pause_without_beats_are_skipped_and_the_backlog_runs_as_chosen(
    cluster: Cluster,
) -> None:
    cluster.apps = TOOLS
    names = [f"held-{backlog}" for backlog in RUNS]
    config: dict[str, Any] = {"overlap": "queue", "recovery_rate": None}
    jobs = insert_jobs([*names, "held-until"], "* * * * * *", function="nothing", **config)
    cluster.start_worker()
    beats = start_beats(cluster, 2)
    completed = occurrences_of("held").filter(state="completed")
    cluster.wait_until(lambda: completed.count() >= len(jobs), timeout=60, describe="the first runs")

    for name in names:
        cluster.manage("punctual", "jobs", "pause", name, "--reason", "new disks")
    until = timezone.now() + timedelta(seconds=10)
    pause = ["punctual", "jobs", "pause", "held-until", "--backlog", "last"]
    cluster.manage(*pause, "--until", until.isoformat())
    for beat in beats:
        cluster.stop(beat)
    let_pass(cluster, DOWNTIME)
    for backlog, name in zip(RUNS, names, strict=True):
        cluster.manage("punctual", "jobs", "resume", name, "--backlog", backlog)
    let_pass(cluster, max(until - timezone.now(), timedelta()))
    start_beats(cluster, 2)

    pauses = Pause.objects.using(ALIAS)
    cluster.wait_until(lambda: pauses.count() == len(jobs), timeout=60, describe="the end of each pause")
    for job in jobs:
        row = pauses.get(job=job)
        owed = {at for _, at in owed_instants([job], row.began_at, row.ended_at) if at < row.ended_at}
        assert len(owed) >= DOWNTIME.total_seconds() - 1
        assert owed <= skipped_instants(job.name), job.name
        count = RUNS.get(row.backlog)
        count = len(skipped_instants(job.name)) if count is None else count
        repeats = repeats_of(job.name)
        assert repeats.count() == count, job.name
        done = repeats.filter(state="completed")
        cluster.wait_until(
            lambda done=done, count=count: done.count() == count,  # type: ignore[misc]
            timeout=60,
            describe=f"the backlog of {job.name}",
        )
        started = list(done.order_by("started_at").values_list("scheduled_for", flat=True))
        assert started == sorted(started), "in the order of the instants"
    assert pauses.get(job__name="held-until").ended_at == until
    assert not Job.objects.using(ALIAS).exclude(paused_at=None).exists()
    for name in [*names, "held-until"]:
        to = pauses.get(job__name=name).ended_at.isoformat()
        assert "0 differences" in cluster.manage("punctual", "ledger", "verify", "--job", name, "--to", to)
