"""Hooks that hang, kill their process, fork or are async, beside jobs that have to keep their schedule."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from punctual.execution.models import HookCall
from punctual.occurrences.models import Occurrence
from tests.cluster.job_rows import insert_jobs
from tests.cluster.ledger_queries import occurrences_of
from tests.cluster.processes import ALIAS, Cluster
from tests.cluster.scenarios import (
    BEHAVIOURS,
    attempt_summary,
    attempts,
    insert_due_jobs,
    note_times,
    prepare,
    wait_until_settled,
)
from tests.cluster.web import Web

pytestmark = [pytest.mark.cluster, pytest.mark.req("JOB-9")]

# By job: the event, the hook, and what its first call has to be recorded as.
HUNG, BROKEN, DONE = (3, True), (1, True), (1, False)
HOSTILE: dict[str, tuple[str, str, tuple[int, bool]]] = {
    "loops-at-start": ("on_start", "never_returns", HUNG),
    "loops-at-end": ("on_complete", "never_returns", HUNG),
    "sleeps": ("on_start", "sleeps", HUNG),
    "never-awakes": ("on_complete", "never_awakes", HUNG),
    "exits": ("on_complete", "exits", HUNG),
    "killed": ("on_start", "killed", HUNG),
    "raises": ("on_start", "raises", BROKEN),
    "forks": ("on_complete", "forks", DONE),
    "forks-at-start": ("on_start", "forks", DONE),
    "awaited": ("on_complete", "awaited", DONE),
}
PLAIN = [f"plain-{number}" for number in range(3)]
LATENESS = timedelta(seconds=5)  # a process that is killed is replaced within a second; the machine is busy


def hook_name(hook: str) -> str:
    return f"{BEHAVIOURS}.hooks.{hook}"


def first_calls() -> dict[str, tuple[int, bool]]:
    """Of each job, how its first call of a hook ended, if it did."""
    rows = HookCall.objects.using(ALIAS).filter(finished_at__isnull=False).order_by("-created_at")
    return {
        job: (tries, failed)
        for job, tries, failed in rows.values_list("occurrence__job__name", "tries", "failed")
    }


def all_calls() -> object:
    """The first calls of each job, for the message of a test that fails."""
    rows = (
        HookCall.objects.using(ALIAS)
        .order_by("created_at")
        .values_list(
            "occurrence__job__name", "tries", "slot", "requested_at", "started_at", "finished_at", "error"
        )
    )
    seen: Counter[str] = Counter()
    lines = []
    for job, *columns in rows:
        seen[job] += 1
        if seen[job] <= 2:
            lines.append(f"{job}: {' '.join(map(str, columns))}")
    return "\n".join(sorted(lines))


@pytest.mark.alone
def test_hostile_hooks_are_recorded_while_every_other_job_keeps_its_schedule(cluster: Cluster) -> None:
    prepare(cluster, beats=2, PUNCTUAL_HOOK_TIMEOUT="2s", PUNCTUAL_KILL_AFTER="1s")
    worker = cluster.start_worker(concurrency=4)
    web = Web(cluster)
    # On a busy machine a run may take a second; whether the next instant is then skipped is not the question.
    insert_jobs(PLAIN, "@every 1s", function="effect", overlap="allow")
    cluster.wait_until(lambda: web.ready()["ready"], timeout=60, describe=lambda: web.get("/readyz"))
    begin = timezone.now()
    for job, (event, hook, _) in HOSTILE.items():
        config: dict[str, Any] = {event: [hook_name(hook)]}
        insert_jobs([job], "@every 2s", function="effect", **config)
    readiness: Counter[bool] = Counter()

    def recorded() -> bool:
        readiness[web.ready()["ready"]] += 1
        return first_calls().keys() >= HOSTILE.keys()

    cluster.wait_until(recorded, timeout=180, describe=all_calls)
    end = timezone.now() - LATENESS

    assert first_calls() == {job: record for job, (_, _, record) in HOSTILE.items()}, all_calls()
    assert not readiness[False]
    for job in PLAIN:
        check_schedule(job, begin + LATENESS, end)
    finished = Occurrence.objects.using(ALIAS).filter(finished_at__isnull=False).exclude(state="skipped")
    assert set(finished.values_list("state", flat=True)) == {"completed"}, "no hook changes an outcome"
    for job in HOSTILE:
        first = occurrences_of(job).filter(finished_at__isnull=False).exclude(state="skipped").first()
        assert first is not None, f"{job} never ran"
        assert len(note_times(cluster, f"{job}/done")) <= occurrences_of(job).exclude(started_at=None).count()
    assert len(worker.children) >= 4


def check_schedule(job: str, begin: datetime, end: datetime) -> None:
    """Every instant completed, and none started late."""
    rows = occurrences_of(job, start=begin, end=end)
    assert set(rows.values_list("state", flat=True)) == {"completed"}
    late = [row for row in rows if row.started_at is None or row.started_at - row.run_at > LATENESS]
    assert late == []
    assert rows.count() >= (end - begin).total_seconds() - 2


@pytest.mark.req("TSK-2")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_an_on_start_longer_than_the_lease_is_followed_by_one_body(cluster: Cluster, mode: str) -> None:
    prepare(cluster, beats=2, PUNCTUAL_LEASE="3s")
    for _ in range(2):
        cluster.start_worker(concurrency=2)
    insert_due_jobs("patient", config={"on_start": [hook_name("ten_seconds")], "mode": mode}, quick=3)
    wait_until_settled(cluster, "patient")

    (over,) = note_times(cluster, "patient/hook is over")
    assert len(note_times(cluster, "patient/hook")) == 1
    begun = note_times(cluster, "patient/end")
    assert len(begun) == 3, attempt_summary("patient")
    assert min(begun) > over, "no task starts before its start hook is over"
    assert [item.state for item in attempts("patient")] == ["success"] * 3


@pytest.mark.req("TSK-3")
def test_a_worker_that_is_killed_during_a_hook_costs_a_try(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LEASE="2s", PUNCTUAL_HOOK_TIMEOUT="15s")
    doomed = cluster.start_worker(concurrency=1)
    insert_due_jobs("job", config={"on_start": [hook_name("ten_seconds")]}, quick=1)
    cluster.wait_until(lambda: bool(note_times(cluster, "job/hook")), timeout=60, describe=all_calls)
    cluster.kill(doomed)
    cluster.start_worker(concurrency=1)
    wait_until_settled(cluster, "job", timeout=90)
    (call,) = HookCall.objects.using(ALIAS).all()
    assert (call.tries, call.failed) == (2, False)
    assert len(note_times(cluster, "job/end")) == 1
