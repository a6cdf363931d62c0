"""A cancellation reaches running code within a second."""

from datetime import timedelta

import pytest

from punctual.occurrences.models import Occurrence
from tests.cluster.processes import ALIAS, Cluster
from tests.cluster.scenarios import (
    NO_RETRY,
    attempts,
    insert_due_jobs,
    note_times,
    outcome,
    prepare,
    run_states,
    wait_for_note,
    wait_until_settled,
)

pytestmark = [pytest.mark.cluster]

SECOND = timedelta(seconds=1)
SOON = 2 * SECOND  # one second is promised; the other allows for a busy machine


@pytest.mark.alone
@pytest.mark.req("EXE-2")
def test_with_fail_fast_twenty_parallel_tasks_stop_within_a_second_and_the_clean_up_runs(
    cluster: Cluster,
) -> None:
    prepare(cluster)
    cluster.start_worker(concurrency=20)
    config = {"mode": "parallel", "retry": NO_RETRY}
    steps = {"waits": 18, "fails_at_last": 1, "three_seconds": {"failure_strategy": "continue"}}
    insert_due_jobs("many", config=config, metadata={"others": "19"}, **steps)
    wait_until_settled(cluster, "many")
    (failed,) = [item.finished_at for item in attempts("many") if item.state == "failed"]
    assert failed is not None
    wait_for_note(cluster, "many/canceled", 18)
    stopped = note_times(cluster, "many/canceled")
    assert len(stopped) == 18
    assert stopped[-1] - failed < SOON
    assert len(note_times(cluster, "many/end")) == 1, "the clean-up ran to its end"
    assert run_states("many") == {"canceled": 18, "dlq": 1, "success": 1}
    assert outcome("many") == "failed"


@pytest.mark.alone
@pytest.mark.req("EXE-10")
def test_an_operator_s_cancel_and_the_execution_timeout_reach_running_code(cluster: Cluster) -> None:
    prepare(cluster)
    cluster.start_worker(concurrency=4)
    insert_due_jobs("operator", waits=1)
    insert_due_jobs("ignored", deaf=1)
    insert_due_jobs("overdue", config={"execution_timeout": "2s"}, waits=1)
    for name in ("operator", "ignored"):
        wait_for_note(cluster, f"{name}/begin")
    ids = Occurrence.objects.using(ALIAS).filter(job__name__in=["operator", "ignored"])
    occurrence_ids = [str(id_) for id_ in ids.values_list("id", flat=True)]
    cluster.manage(
        "shell",
        "--no-imports",
        "--command",
        "from punctual.execution.ending.cancel import cancel_now;"
        "from punctual.jobs.clock import database_now;"
        "from uuid import UUID;"
        f"cancel_now(occurrences=[UUID(i) for i in {occurrence_ids}], reason='operator', now=database_now())",
    )
    wait_until_settled(cluster, "operator", "ignored", "overdue")
    wait_for_note(cluster, "operator/canceled")
    wait_for_note(cluster, "overdue/canceled")
    assert (outcome("operator"), outcome("overdue")) == ("canceled", "failed_stale")
    (canceled,) = attempts("operator")
    assert canceled.finished_at is not None
    assert note_times(cluster, "operator/canceled")[0] - canceled.finished_at < SOON
    (stale,) = attempts("overdue")
    assert stale.finished_at is not None
    assert timedelta(seconds=2) <= stale.finished_at - stale.started_at < timedelta(seconds=6)
    assert note_times(cluster, "overdue/canceled")[0] - stale.finished_at < SOON
    cluster.wait_until(
        lambda: cluster.log_lines("signal 9 (SIGKILL)"),
        timeout=30,
        describe="the task that ignores its cancellation is killed",
    )
    insert_due_jobs("after", quick=1)
    wait_until_settled(cluster, "after")
    assert outcome("after") == "completed", "a new process took its place in the pool"
