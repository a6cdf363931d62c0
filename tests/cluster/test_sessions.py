"""A worker's process keeps its database connection, whatever functions do to its session."""

import pytest

from tests.cluster.processes import Cluster
from tests.cluster.scenarios import attempts, insert_due_jobs, outcome, prepare, wait_until_settled

pytestmark = [pytest.mark.cluster]

JOBS = [f"job-{number}" for number in range(20)]


@pytest.mark.req("PRF-2")
def test_functions_that_leave_session_state_behind_delay_nothing(cluster: Cluster) -> None:
    prepare(cluster)
    cluster.start_worker(concurrency=1)
    insert_due_jobs(*JOBS, config={"bundle": False}, notes_backend=2)
    # A claim that fails would be repeated after PUNCTUAL_LOST_AFTER, which is 30 seconds.
    wait_until_settled(cluster, *JOBS, timeout=25)
    assert {outcome(name) for name in JOBS} == {"completed"}
    assert {item.state for name in JOBS for item in attempts(name)} == {"success"}
    rows = cluster.query("SELECT source, count(*) FROM cluster_app_effect GROUP BY source", [])
    assert len({source.split("/")[1] for source, _ in rows}) == 1, "one connection for all messages"
    assert sum(count for _, count in rows) == 2 * len(JOBS)
