"""Code that does not come back, and code that takes its process down: it ends, its neighbours go on."""

from datetime import timedelta
from typing import Any

import pytest

from tests.cluster import queues
from tests.cluster.contracts import (
    AT_ONCE,
    attempts,
    due,
    noted,
    outcome,
    prepare,
    story,
    wait_noted,
    wait_settled,
)
from tests.cluster.ledgers import runs
from tests.cluster.processes import Cluster

pytestmark = [pytest.mark.cluster]

STUCK = ("loops", "sleeps_through_exit", "hangs_in_c")
OBEDIENT = ("slow", "slow_coroutine")
TIMEOUT, KILL_AFTER = timedelta(seconds=2), timedelta(seconds=2)
ALLOWANCE = timedelta(seconds=10)  # two of them keep the processors busy; still far from a lease


@pytest.mark.req("EXE-5")
def test_stuck_tasks_die_at_their_timeout_and_their_neighbours_do_not_notice(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LEASE="30s")
    cluster.start_worker(concurrency=7)
    for name in STUCK + OBEDIENT:
        step: dict[str, Any] = {name: 1}
        due(name, config={"task_timeout": "2s", "retry": AT_ONCE}, **step)
    due("neighbour", three_seconds=1)
    wait_settled(cluster, *STUCK, *OBEDIENT, "neighbour")

    for name in STUCK + OBEDIENT:
        first, second = attempts(name)
        assert (first.state, second.state) == ("timeout", "success"), story(name)
        assert first.finished_at is not None
        took = first.finished_at - first.started_at
        least = TIMEOUT + (KILL_AFTER if name in STUCK else timedelta())
        assert least <= took <= least + ALLOWANCE, "at once, not when a lease ran out"
        assert ("ended by SIGKILL" in first.error or "is gone" in first.error) is (name in STUCK)
    assert len(noted(cluster, "slow/interrupted")) == 1, "who can clean up may do so"
    (kept,) = attempts("neighbour")
    assert kept.state == "success"


@pytest.mark.req("TSK-3")
def test_what_a_busy_worker_took_ahead_is_done_by_an_idle_one(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LOST_AFTER="10m")
    cluster.start_worker(concurrency=1)
    due("sleeper", ten_seconds=1)
    wait_noted(cluster, "sleeper/begin")
    ahead = [f"ahead-{number}" for number in range(3)]
    due(*ahead, quick=1)
    cluster.wait_until(
        lambda: (
            runs("ahead").filter(dispatched_at__isnull=False).count() == len(ahead)
            and queues.length(cluster, "default") == 0
        ),
        timeout=30,
        describe=lambda: story(*ahead),
    )
    cluster.start_worker(concurrency=1)
    wait_settled(cluster, *ahead, "sleeper")

    (slept,) = attempts("sleeper")
    assert slept.finished_at is not None
    for name in ahead:
        (attempt,) = attempts(name)
        assert (attempt.state, len(noted(cluster, f"{name}/end"))) == ("success", 1)
        assert attempt.worker != slept.worker
        assert attempt.started_at < slept.finished_at, story(name)


@pytest.mark.req("TSK-5")
def test_a_poisonous_task_is_parked_after_its_retries_and_the_queue_behind_it_flows(
    cluster: Cluster,
) -> None:
    prepare(cluster)
    cluster.start_worker(concurrency=1)
    due("poison", config={"retry": {"max_retries": 2, "interval": "1ms"}}, poison=1)
    wait_noted(cluster, "poison/begin")
    behind = [f"behind-{number}" for number in range(5)]
    due(*behind, quick=1)
    wait_settled(cluster, "poison", *behind)
    assert [item.state for item in attempts("poison")] == ["lost"] * 3
    assert outcome("poison") == "failed"
    rows = cluster.query("SELECT state, reason, error FROM occurrences_taskrun WHERE attempts_made = 3")
    assert [(state, reason) for state, reason, _ in rows] == [("dlq", "lost after 3 attempts")]
    assert rows[0][2].startswith("WorkerLost: its process")
    assert [item.state for name in behind for item in attempts(name)] == ["success"] * 5
