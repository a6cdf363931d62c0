"""Eight beats and ten thousand occurrences due in the same second: one row and one message each."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from punctual.occurrences.querysets import TaskRunQuerySet
from tests.cluster import queues
from tests.cluster.job_rows import insert_jobs, make_pool, owed_instants
from tests.cluster.ledger_queries import count_states, occurrences_of, runs_of, start_beats
from tests.cluster.processes import TOOLS, Cluster

pytestmark = [pytest.mark.cluster]

BEATS = 8
COUNT = 10_000
QUEUE = "crowd"
APART = timedelta(seconds=30)


def sent_of(instant: datetime) -> TaskRunQuerySet:
    """Runs of that instant whose message the broker has accepted."""
    return runs_of("crowd").filter(occurrence__scheduled_for=instant, dispatched_at__isnull=False)


def wait_for_dispatch(cluster: Cluster, instant: datetime) -> None:
    cluster.wait_until(
        lambda: sent_of(instant).count() == COUNT,
        timeout=90,
        describe=lambda: (
            f"{COUNT} sent, got {sent_of(instant).count()}; {count_states(occurrences_of('crowd'))}"
        ),
    )


def assert_one_message_each(cluster: Cluster, instant: datetime) -> None:
    occurrences = occurrences_of("crowd", end=instant)
    assert count_states(occurrences) == {"dispatched": COUNT}
    assert set(occurrences.values_list("scheduled_for", flat=True)) == {instant}
    assert occurrences.values("job").distinct().count() == COUNT
    ids = set(runs_of("crowd").filter(occurrence__in=occurrences).values_list("id", flat=True))
    assert len(ids) == COUNT
    assert queues.waiting_runs(cluster, QUEUE) == dict.fromkeys(ids, 1)


def prune(cluster: Cluster, instant: datetime) -> None:
    """Delete all rows of the instant, as pruning would, and empty the queue."""
    runs_of("crowd").filter(occurrence__scheduled_for=instant).delete()
    occurrences_of("crowd", end=instant).delete()
    queues.empty(cluster, QUEUE)


@pytest.mark.alone
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
        misfire_grace="1h",  # a slow machine may be late
    )
    assert owed_instants(jobs, jobs[0].created_at, second + APART) == {
        (job.name, instant) for job in jobs for instant in (first, second)
    }
    wait_for_dispatch(cluster, first)
    assert_one_message_each(cluster, first)

    prune(cluster, first)
    cluster.kill(beats[0])
    cluster.start_beat()
    # Half of the jobs are edited, and therefore planned again.
    cluster.execute("UPDATE punctual_job SET config = config || '{\"priority\": 1}' WHERE name > 'crowd-05'")
    wait_for_dispatch(cluster, second)
    assert not occurrences_of("crowd", end=first).exists(), "pruned occurrences must not be created again"
    assert_one_message_each(cluster, second)
    assert occurrences_of("crowd").count() == COUNT, "no further occurrence is planned"
    assert cluster.log_lines("deadlock", "traceback", "beat.tick_failed") == []
