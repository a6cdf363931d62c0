"""Tasks that hang and tasks that kill their process are ended; other tasks are not affected."""

from datetime import timedelta
from typing import Any

import pytest

from tests.cluster import queues
from tests.cluster.ledger_queries import runs_of
from tests.cluster.processes import Cluster
from tests.cluster.scenarios import (
    RETRY_ONCE,
    attempt_summary,
    attempts,
    insert_due_jobs,
    note_times,
    outcome,
    prepare,
    wait_for_note,
    wait_until_settled,
)

pytestmark = [pytest.mark.cluster]

STUCK = ("loops", "sleeps_through_exit", "hangs_in_c")
OBEDIENT = ("slow", "slow_coroutine")
TIMEOUT, KILL_AFTER = timedelta(seconds=2), timedelta(seconds=2)
ALLOWANCE = timedelta(seconds=10)  # two of the tasks use all processor time; still far less than a lease


@pytest.mark.req("EXE-5")
def test_stuck_tasks_are_killed_at_their_timeout_without_affecting_others(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LEASE="30s")
    cluster.start_worker(concurrency=7)
    for name in STUCK + OBEDIENT:
        step: dict[str, Any] = {name: 1}
        insert_due_jobs(name, config={"task_timeout": "2s", "retry": RETRY_ONCE}, **step)
    insert_due_jobs("neighbour", three_seconds=1)
    wait_until_settled(cluster, *STUCK, *OBEDIENT, "neighbour")

    for name in STUCK + OBEDIENT:
        first, second = attempts(name)
        assert (first.state, second.state) == ("timeout", "success"), attempt_summary(name)
        assert first.finished_at is not None
        took = first.finished_at - first.started_at
        least = TIMEOUT + (KILL_AFTER if name in STUCK else timedelta())
        assert least <= took <= least + ALLOWANCE, "at its timeout, not when the lease expired"
        assert ("ended by SIGKILL" in first.error or "is gone" in first.error) is (name in STUCK)
    assert len(note_times(cluster, "slow/interrupted")) == 1, "a task that can be interrupted may clean up"
    (kept,) = attempts("neighbour")
    assert kept.state == "success"


@pytest.mark.req("TSK-3")
def test_runs_prefetched_by_a_busy_worker_are_done_by_an_idle_one(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LOST_AFTER="10m")
    cluster.start_worker(concurrency=1)
    insert_due_jobs("sleeper", ten_seconds=1)
    wait_for_note(cluster, "sleeper/begin")
    ahead = [f"ahead-{number}" for number in range(3)]
    insert_due_jobs(*ahead, quick=1)
    cluster.wait_until(
        lambda: (
            runs_of("ahead").filter(dispatched_at__isnull=False).count() == len(ahead)
            and queues.length(cluster, "default") == 0
        ),
        timeout=30,
        describe=lambda: attempt_summary(*ahead),
    )
    cluster.start_worker(concurrency=1)
    wait_until_settled(cluster, *ahead, "sleeper")

    (slept,) = attempts("sleeper")
    assert slept.finished_at is not None
    for name in ahead:
        (attempt,) = attempts(name)
        assert (attempt.state, len(note_times(cluster, f"{name}/end"))) == ("success", 1)
        assert attempt.worker != slept.worker
        assert attempt.started_at < slept.finished_at, attempt_summary(name)


@pytest.mark.req("TSK-5")
def test_a_task_that_kills_its_process_is_parked_after_its_retries_and_the_queue_flows(
    cluster: Cluster,
) -> None:
    prepare(cluster)
    cluster.start_worker(concurrency=1)
    insert_due_jobs("poison", config={"retry": {"max_retries": 2, "interval": "1ms"}}, poison=1)
    wait_for_note(cluster, "poison/begin")
    behind = [f"behind-{number}" for number in range(5)]
    insert_due_jobs(*behind, quick=1)
    wait_until_settled(cluster, "poison", *behind)
    assert [item.state for item in attempts("poison")] == ["lost"] * 3
    assert outcome("poison") == "failed"
    rows = cluster.query("SELECT state, reason, error FROM punctual_taskrun WHERE attempts_made = 3")
    assert [(state, reason) for state, reason, _ in rows] == [("dlq", "lost after 3 attempts")]
    assert rows[0][2].startswith("WorkerLost: its process")
    assert [item.state for name in behind for item in attempts(name)] == ["success"] * 5
