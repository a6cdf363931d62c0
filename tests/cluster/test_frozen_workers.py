"""Workers that freeze and continue later, and workers whose clocks are wrong."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from punctual.occurrences.models import Attempt
from tests.cluster.processes import ALIAS, Cluster
from tests.cluster.scenarios import (
    RETRY_ONCE,
    attempts,
    insert_due_jobs,
    note_times,
    outcome,
    prepare,
    wait_until_settled,
)

pytestmark = [pytest.mark.cluster]

SKEW = Path(__file__).parent / "skew"


@pytest.mark.req("TSK-2")
@pytest.mark.req("EXE-6")
def test_the_late_result_of_a_frozen_worker_changes_nothing(cluster: Cluster) -> None:
    # A message that Redis delivers to the frozen worker is lost with it.
    prepare(cluster, PUNCTUAL_LEASE="4s", PUNCTUAL_LOST_AFTER="5s")
    frozen = cluster.start_worker(concurrency=2, queues="default,own")
    config = {"retry": RETRY_ONCE}
    insert_due_jobs("pays", config=config, metadata={"seconds": "2"}, pays=1)
    insert_due_jobs("lasts", config=config, metadata={"seconds": "2"}, lasts=1)
    cluster.wait_until(
        lambda: Attempt.objects.using(ALIAS).count() == 2, timeout=30, describe="both have begun"
    )
    cluster.freeze(frozen)
    cluster.start_worker(concurrency=2)
    wait_until_settled(cluster, "pays", "lasts")
    before = {name: outcome(name) for name in ("pays", "lasts")}
    cluster.thaw(frozen)
    # The frozen worker has two processes: when these two runs have ended, so have the two frozen ones.
    insert_due_jobs("own-1", "own-2", config={"queue": "own"}, metadata={"seconds": "1"}, lasts=1)
    wait_until_settled(cluster, "own-1", "own-2")
    for name in ("pays", "lasts"):
        assert [item.state for item in attempts(name)] == ["lost", "success"]
        assert outcome(name) == before[name] == "completed"
    assert len(note_times(cluster, "pays/paid")) == 1, "the write of the frozen worker was rolled back"


@pytest.mark.alone
@pytest.mark.req("TSK-8")
def test_workers_whose_clocks_are_wrong_by_ten_minutes_change_nothing(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LEASE="3s")
    for seconds in ("600", "-600"):
        cluster.variables |= {"PYTHONPATH": str(SKEW), "SKEW_SECONDS": seconds}
        cluster.start_worker(concurrency=2)
    started = timezone.now()
    insert_due_jobs("again", config={"retry": {"max_retries": 1, "interval": "3s"}}, fails_once=1)
    insert_due_jobs("over-a-lease", "over-it-too", metadata={"seconds": "5"}, lasts=1)
    insert_due_jobs("stuck", config={"task_timeout": "2s", "retry": {"max_retries": 0}}, slow=1)
    names = [f"quick-{number}" for number in range(8)]
    insert_due_jobs(*names, quick=2)
    wait_until_settled(cluster, "again", "over-a-lease", "over-it-too", "stuck", *names)

    assert any("skewed by" in line for process in cluster.processes for line in process.lines)
    first, second = attempts("again")
    assert (first.state, second.state) == ("failed", "success")
    assert first.finished_at is not None
    assert timedelta(seconds=3) <= second.started_at - first.finished_at < timedelta(seconds=8)
    for name in ("over-a-lease", "over-it-too"):
        assert [item.state for item in attempts(name)] == ["success"], "the lease was renewed in time"
    (stuck,) = attempts("stuck")
    assert stuck.state == "timeout"
    for item in Attempt.objects.using(ALIAS).all():
        assert item.finished_at is not None
        assert started <= item.started_at <= item.finished_at <= timezone.now()
    assert [item.state for name in names for item in attempts(name)] == ["success"] * 16
    workers = set(Attempt.objects.using(ALIAS).values_list("worker", flat=True))
    assert len({name.partition("@")[0] for name in workers}) == 2, "both took part"
