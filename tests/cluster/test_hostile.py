"""What a function raises, returns, prints or leaves behind ends as a recorded attempt; the next run works."""

from datetime import timedelta
from typing import Any

import pytest

from punctual.jobs.declaration.registry import registry
from tests.cluster.processes import Cluster
from tests.cluster.scenarios import (
    NO_RETRY,
    attempt_summary,
    attempts,
    insert_due_jobs,
    outcome,
    prepare,
    wait_until_settled,
)

with registry.isolated():
    from tests.cluster.behaviours.hostile import EXPECTED  # its job is for the cluster's processes only

pytestmark = [pytest.mark.cluster, pytest.mark.req("TSK-5")]

HOSTILE = "tests.cluster.behaviours.hostile"
WITHIN = timedelta(seconds=5)  # less than a lease: no sweeper has found it
ENDS_ITS_PROCESS = {"closes_every_file"}
NO_TRACEBACK = {"raises_classless", *ENDS_ITS_PROCESS}


@pytest.mark.parametrize("cluster", ["postgres", "sqlite"], indirect=True)
def test_every_ending_is_recorded_and_the_process_goes_on(cluster: Cluster) -> None:
    prepare(cluster, PUNCTUAL_LEASE="30s")
    worker = cluster.start_worker(concurrency=1)
    config = {"failure_strategy": "continue", "retry": NO_RETRY, "bundle": False}
    for name in EXPECTED:
        tasks: dict[str, Any] = {f"{HOSTILE}.{name}": 1, "quick": 1}
        insert_due_jobs(name, config=config, **tasks)
    wait_until_settled(cluster, *EXPECTED, timeout=120)

    for name, error_type in EXPECTED.items():
        first, after = attempts(name)
        state = ("lost" if name in ENDS_ITS_PROCESS else "failed") if error_type else "success"
        assert (first.state, first.error_type) == (state, error_type), attempt_summary(name)
        assert bool(first.traceback) is (bool(error_type) and name not in NO_TRACEBACK), name
        assert first.finished_at is not None
        assert first.finished_at - first.started_at < WITHIN, attempt_summary(name)
        assert after.state == "success", attempt_summary(name)
        assert outcome(name) == ("completed_with_errors" if error_type else "completed"), name
    processes = {item.worker for name in EXPECTED for item in attempts(name)}
    assert len(processes) == 1 + len(ENDS_ITS_PROCESS), cluster.log_lines("exited", "lost")
    assert worker.alive
