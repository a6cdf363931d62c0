"""A worker that receives SIGTERM hands its runs back; the next worker continues at once, without a retry."""

from datetime import timedelta

import pytest

from punctual.occurrences.models import TaskRun
from tests.cluster.processes import ALIAS, Cluster, Pool
from tests.cluster.scenarios import (
    NO_RETRY,
    attempts,
    insert_due_jobs,
    outcome,
    prepare,
    wait_for_note,
    wait_until_settled,
)

pytestmark = [pytest.mark.cluster, pytest.mark.req("EXE-9")]


@pytest.mark.alone
def test_a_stopped_worker_hands_back_running_and_waiting_runs(cluster: Cluster) -> None:
    prepare(cluster)
    first = cluster.start_worker(concurrency=3)
    insert_due_jobs("polite", config={"retry": NO_RETRY}, hands_back=1)
    insert_due_jobs("deaf", config={"retry": NO_RETRY}, deaf=1)
    insert_due_jobs("in-time", config={"retry": NO_RETRY}, three_seconds=1)
    for name in ("polite", "deaf", "in-time"):
        wait_for_note(cluster, f"{name}/begin")
    waiting = [f"waiting-{number}" for number in range(6)]
    insert_due_jobs(*waiting, quick=1)
    first.popen.terminate()
    second = cluster.start_worker(concurrency=3)
    first.ended = True
    assert first.popen.wait(timeout=20) == 0
    wait_until_settled(cluster, "polite", "deaf", "in-time", *waiting)
    assert second.alive

    for name in ("polite", "deaf"):
        released, again = attempts(name)
        assert (released.state, again.state, outcome(name)) == ("released", "success", "completed")
        assert released.finished_at is not None
        assert again.started_at - released.finished_at < timedelta(seconds=4), "not after a lease"
        run = TaskRun.objects.using(ALIAS).get(occurrence__job__name=name)
        assert (run.attempts_made, run.snoozes) == (2, 1), "no retry was used"
    assert [item.state for item in attempts("in-time")] == ["success"], (
        "a task may finish within the grace period"
    )
    assert [item.state for name in waiting for item in attempts(name)] == ["success"] * len(waiting)


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_other_pools_hand_back_too(cluster: Cluster, pool: Pool) -> None:
    prepare(cluster)
    first = cluster.start_worker(concurrency=2, pool=pool)
    insert_due_jobs("polite", config={"retry": NO_RETRY}, hands_back=1)
    wait_for_note(cluster, "polite/begin")
    cluster.stop(first, timeout=20)
    cluster.start_worker(concurrency=2, pool=pool)
    wait_until_settled(cluster, "polite")
    assert [item.state for item in attempts("polite")] == ["released", "success"]
