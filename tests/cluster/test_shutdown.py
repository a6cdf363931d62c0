"""A worker that is told to stop hands its work to the next one at once, and nobody counts it as a failure."""

from datetime import timedelta

import pytest

from occurrences.models import TaskRun
from tests.cluster.contracts import NEVER_AGAIN, attempts, due, outcome, prepare, wait_noted, wait_settled
from tests.cluster.processes import ALIAS, Cluster, Pool

pytestmark = [pytest.mark.cluster, pytest.mark.req("EXE-9")]


def test_a_stopped_worker_hands_back_what_runs_and_what_waits(cluster: Cluster) -> None:
    prepare(cluster)
    first = cluster.start_worker(concurrency=3)
    due("polite", config={"retry": NEVER_AGAIN}, hands_back=1)
    due("deaf", config={"retry": NEVER_AGAIN}, deaf=1)
    due("in-time", config={"retry": NEVER_AGAIN}, three_seconds=1)
    for name in ("polite", "deaf", "in-time"):
        wait_noted(cluster, f"{name}/begin")
    waiting = [f"waiting-{number}" for number in range(6)]
    due(*waiting, quick=1)
    first.popen.terminate()
    second = cluster.start_worker(concurrency=3)
    first.ended = True
    assert first.popen.wait(timeout=20) == 0
    wait_settled(cluster, "polite", "deaf", "in-time", *waiting)
    assert second.alive

    for name in ("polite", "deaf"):
        told, again = attempts(name)
        assert (told.state, again.state, outcome(name)) == ("released", "success", "completed")
        assert told.finished_at is not None
        assert again.started_at - told.finished_at < timedelta(seconds=4), "not after a lease"
        run = TaskRun.objects.using(ALIAS).get(occurrence__job__name=name)
        assert (run.attempts_made, run.snoozes) == (2, 1), "no retry was used up: there is none"
    assert [item.state for item in attempts("in-time")] == ["success"], "who finishes within the grace may"
    assert [item.state for name in waiting for item in attempts(name)] == ["success"] * len(waiting)


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_other_pools_hand_back_too(cluster: Cluster, pool: Pool) -> None:
    prepare(cluster)
    first = cluster.start_worker(concurrency=2, pool=pool)
    due("polite", config={"retry": NEVER_AGAIN}, hands_back=1)
    wait_noted(cluster, "polite/begin")
    cluster.stop(first, timeout=20)
    cluster.start_worker(concurrency=2, pool=pool)
    wait_settled(cluster, "polite")
    assert [item.state for item in attempts("polite")] == ["released", "success"]
