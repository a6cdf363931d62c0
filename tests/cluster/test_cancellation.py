"""Running code hears of it within a second, whoever does not want it any more."""

from datetime import timedelta

import pytest

from occurrences.models import Occurrence
from tests.cluster.contracts import (
    NEVER_AGAIN,
    attempts,
    due,
    noted,
    outcome,
    prepare,
    run_states,
    wait_noted,
    wait_settled,
)
from tests.cluster.processes import ALIAS, Cluster

pytestmark = [pytest.mark.cluster]

SECOND = timedelta(seconds=1)
SOON = 2 * SECOND  # one is what is promised; the other is for a machine that is busy with other tests


@pytest.mark.req("EXE-2")
def test_with_fail_fast_twenty_parallel_tasks_stop_within_a_second_and_the_clean_up_runs(
    cluster: Cluster,
) -> None:
    prepare(cluster)
    cluster.start_worker(concurrency=20)
    config = {"mode": "parallel", "retry": NEVER_AGAIN}
    steps = {"waits": 18, "fails_at_last": 1, "three_seconds": {"failure_strategy": "continue"}}
    due("many", config=config, metadata={"others": "19"}, **steps)
    wait_settled(cluster, "many")
    (failed,) = [item.finished_at for item in attempts("many") if item.state == "failed"]
    assert failed is not None
    wait_noted(cluster, "many/canceled", 18)
    stopped = noted(cluster, "many/canceled")
    assert len(stopped) == 18
    assert stopped[-1] - failed < SOON
    assert len(noted(cluster, "many/end")) == 1, "the clean-up ran to its end"
    assert run_states("many") == {"canceled": 18, "dlq": 1, "success": 1}
    assert outcome("many") == "failed"


@pytest.mark.req("EXE-10")
def test_an_operator_s_cancel_and_the_execution_timeout_reach_running_code(cluster: Cluster) -> None:
    prepare(cluster)
    cluster.start_worker(concurrency=4)
    due("operator", waits=1)
    due("ignored", deaf=1)
    due("overdue", config={"execution_timeout": "2s"}, waits=1)
    for name in ("operator", "ignored"):
        wait_noted(cluster, f"{name}/begin")
    ids = Occurrence.objects.using(ALIAS).filter(job__name__in=["operator", "ignored"])
    wanted = [str(id_) for id_ in ids.values_list("id", flat=True)]
    cluster.manage(
        "shell",
        "--no-imports",
        "--command",
        "from execution.cancel import cancel_now; from jobs.clock import database_now; from uuid import UUID;"
        f"cancel_now(occurrences=[UUID(i) for i in {wanted}], reason='operator', now=database_now())",
    )
    wait_settled(cluster, "operator", "ignored", "overdue")
    wait_noted(cluster, "operator/canceled")
    wait_noted(cluster, "overdue/canceled")
    assert (outcome("operator"), outcome("overdue")) == ("canceled", "failed_stale")
    (canceled,) = attempts("operator")
    assert canceled.finished_at is not None
    assert noted(cluster, "operator/canceled")[0] - canceled.finished_at < SOON
    (stale,) = attempts("overdue")
    assert stale.finished_at is not None
    assert timedelta(seconds=2) <= stale.finished_at - stale.started_at < timedelta(seconds=6)
    assert noted(cluster, "overdue/canceled")[0] - stale.finished_at < SOON
    cluster.wait_until(
        lambda: cluster.log_lines("signal 9 (SIGKILL)"),
        timeout=30,
        describe="whoever does not listen is killed",
    )
    due("after", quick=1)
    wait_settled(cluster, "after")
    assert outcome("after") == "completed", "and its place in the pool is taken by a new process"
