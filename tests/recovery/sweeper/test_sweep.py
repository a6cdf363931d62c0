from datetime import timedelta

import pytest

from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState
from punctual.recovery.sweeper import sweep
from punctual.recovery.sweeper.sweep import Swept
from tests.execution.conftest import NOW, redis_down
from tests.harness import Harness
from tests.occurrences.factories import LEASE, a_job, a_run, a_task, an_occurrence, saved, start_occurrence

pytestmark = pytest.mark.req("REC-3")

S = OccurrenceState
QUIET = Swept(lost=0, stale=0, resent=0, settle_requests=0, admitted=0)


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


def a_bit_of_everything() -> None:
    """One of each kind of trouble, each in a job of its own, all due at NOW + LEASE."""
    jobs = {name: saved(a_job(name, NOW)) for name in ("lost", "stale", "unsent", "unsettled", "stranded")}
    tasks = {name: saved(a_task(job)) for name, job in jobs.items()}
    start_occurrence(jobs["lost"], NOW, tasks["lost"])
    start_occurrence(jobs["stale"], NOW, tasks["stale"], execution_timeout="20s")
    TaskRun.objects.filter(task=tasks["stale"]).update(lease_until=NOW + timedelta(hours=1))
    saved(a_run(saved(an_occurrence(jobs["unsent"], NOW, S.DISPATCHED)), tasks["unsent"]))
    unsettled, _ = start_occurrence(jobs["unsettled"], NOW, tasks["unsettled"])
    over = {"state": "success", "finished_at": NOW, "claim_token": None, "lease_until": None}
    TaskRun.objects.filter(occurrence=unsettled).update(**over)
    saved(an_occurrence(jobs["stranded"], NOW, S.QUEUED))


@pytest.mark.django_db
def test_a_sweep_with_nothing_to_do_changes_nothing(queue: Harness) -> None:
    assert sweep.run_once(NOW) == QUIET
    assert queue.take() is None


@pytest.mark.django_db
def test_one_sweep_repairs_every_kind_of_trouble(queue: Harness) -> None:
    a_bit_of_everything()
    swept = sweep.run_once(NOW + LEASE)
    assert (swept.lost, swept.stale, swept.resent, swept.settle_requests) == (1, 1, 1, 1)
    assert queue.lose_messages() == 3, "the unsent run, the admitted one, the request to settle"
    assert dict(Occurrence.objects.values_list("job__name", "state")) == {
        "lost": "running",
        "stale": "failed_stale",
        "unsent": "dispatched",
        "unsettled": "running",
        "stranded": "dispatched",
    }


@pytest.mark.django_db
def test_a_sweep_without_a_broker_does_everything_else() -> None:
    a_bit_of_everything()
    with redis_down():
        swept = sweep.run_once(NOW + LEASE)
    assert (swept.lost, swept.stale) == (1, 1)
    assert TaskRun.objects.filter(state="scheduled", dispatched_at=None).count() == 2


@pytest.mark.req("OCC-6")
def test_a_stranded_occurrence_is_admitted_and_sent(queue: Harness, job: Job, task: Task) -> None:
    saved(an_occurrence(job, NOW, S.QUEUED))
    assert sweep.run_once(NOW).admitted == 1
    assert queue.lose_messages() == 1


@pytest.mark.req("OCC-4")
def test_an_occurrence_released_by_a_loss_is_sent_in_the_same_sweep(
    queue: Harness, job: Job, task: Task
) -> None:
    start_occurrence(job, NOW, task, retry={"max_retries": 0})
    saved(an_occurrence(job, NOW + timedelta(seconds=1), S.QUEUED))
    assert sweep.run_once(NOW + LEASE).lost == 1
    name, _ = queue.take() or ("", None)
    assert name == "punctual.run"
