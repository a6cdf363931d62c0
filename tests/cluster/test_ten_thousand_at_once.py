"""Eight beats and ten thousand instants that are due in the same second: each has one row and one message."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from occurrences.models import TaskRunQuerySet
from tests.cluster import queues
from tests.cluster.fleets import insert_jobs, make_pool, owed
from tests.cluster.ledgers import rows, runs, start_beats, states
from tests.cluster.processes import TOOLS, Cluster

pytestmark = [pytest.mark.cluster]

BEATS = 8
COUNT = 10_000
QUEUE = "crowd"
APART = timedelta(seconds=30)


def sent_of(instant: datetime) -> TaskRunQuerySet:
    """Runs of that instant whose message the broker has accepted."""
    return runs("crowd").filter(occurrence__scheduled_for=instant, dispatched_at__isnull=False)


def wait_for_dispatch(cluster: Cluster, instant: datetime) -> None:
    cluster.wait_until(
        lambda: sent_of(instant).count() == COUNT,
        timeout=90,
        describe=lambda: f"{COUNT} sent, got {sent_of(instant).count()}; {states(rows('crowd'))}",
    )


def assert_one_message_each(cluster: Cluster, instant: datetime) -> None:
    found = rows("crowd", end=instant)
    assert states(found) == {"dispatched": COUNT}
    assert set(found.values_list("scheduled_for", flat=True)) == {instant}
    assert found.values("job").distinct().count() == COUNT
    ids = set(runs("crowd").filter(occurrence__in=found).values_list("id", flat=True))
    assert len(ids) == COUNT
    assert queues.waiting_runs(cluster, QUEUE) == dict.fromkeys(ids, 1)


def prune(cluster: Cluster, instant: datetime) -> None:
    """Everything of that instant goes, as if its retention were over, and the queue is worked off."""
    runs("crowd").filter(occurrence__scheduled_for=instant).delete()
    rows("crowd", end=instant).delete()
    queues.empty(cluster, QUEUE)


@pytest.mark.req("OCC-2")
@pytest.mark.req("OCC-7")
def test_eight_beats_fire_ten_thousand_instants_of_one_moment_once_each_also_after_pruning(
    cluster: Cluster,
) -> None:
    cluster.apps = TOOLS
    make_pool("crowd", 2 * COUNT)
    beats = start_beats(cluster, BEATS)
    first = timezone.now().replace(microsecond=0) + timedelta(seconds=8)
    second = first + APART
    jobs = insert_jobs(
        (f"crowd-{number:05d}" for number in range(COUNT)),
        f"iso8601:R2/{first:%Y-%m-%dT%H:%M:%SZ}/PT{APART.seconds}S",
        function="nothing",
        overlap="allow",
        pool="crowd",
        queue=QUEUE,
        misfire_grace="1h",  # a slow machine shall be late, not give up
    )
    assert owed(jobs, jobs[0].created_at, second + APART) == {
        (job.name, instant) for job in jobs for instant in (first, second)
    }
    wait_for_dispatch(cluster, first)
    assert_one_message_each(cluster, first)

    prune(cluster, first)
    cluster.kill(beats[0])
    cluster.start_beat()
    # Half of the jobs are planned anew, as after any edit.
    cluster.execute("UPDATE jobs_job SET config = config || '{\"priority\": 1}' WHERE name > 'crowd-05'")
    wait_for_dispatch(cluster, second)
    assert not rows("crowd", end=first).exists(), "what was pruned must not come back"
    assert_one_message_each(cluster, second)
    assert rows("crowd").count() == COUNT, "and nothing lies ahead"
    assert cluster.log_lines("deadlock", "traceback", "beat.troubled") == []
