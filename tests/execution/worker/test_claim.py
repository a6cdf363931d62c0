from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from punctual.execution.ending.report import record_attempts
from punctual.execution.worker.claim import LEASE, Claim, begin, claim, hand_back
from punctual.jobs.ids import attempt_id
from punctual.jobs.models import Job, Task
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState, RunState
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_run, an_attempt, an_occurrence, columns_of, saved

pytestmark = pytest.mark.req("TSK-2")

S, R = OccurrenceState, RunState
LATER = NOW + timedelta(seconds=5)


@pytest.fixture
def occurrence(job: Job) -> Occurrence:
    return saved(an_occurrence(job, NOW, S.DISPATCHED))


@pytest.fixture
def run(occurrence: Occurrence, task: Task) -> TaskRun:
    return saved(a_run(occurrence, task))


def test_a_claim_starts_the_occurrence_and_opens_an_attempt(occurrence: Occurrence, run: TaskRun) -> None:
    claimed = claim([run.id], worker="host/1", now=LATER)

    (item,) = claimed
    assert (item.run.id, item.number, item.run.first) == (run.id, 0, True)
    run.refresh_from_db()
    assert (run.state, run.claim_token, run.claimed_by) == (R.RUNNING, item.token, "host/1")
    assert (run.lease_until, run.started_at, run.attempts_made) == (LATER + LEASE, LATER, 1)
    occurrence.refresh_from_db()
    assert (occurrence.state, occurrence.started_at) == (S.RUNNING, LATER)
    assert item.run.deadline_at == LATER + timedelta(hours=1), "the task is told its deadline"
    attempt = Attempt.objects.get()
    assert (attempt.id, attempt.worker, attempt.started_at) == (attempt_id(run.id, 0), "host/1", LATER)


def test_a_second_message_for_the_same_attempt_is_dropped_without_a_trace(run: TaskRun) -> None:
    claim([run.id], worker="host/1", now=LATER)
    before = columns_of(TaskRun, run.id)
    assert claim([run.id], worker="host/2", now=LATER + timedelta(days=1)) == ()
    assert columns_of(TaskRun, run.id) == before
    assert Attempt.objects.count() == 1


@pytest.mark.parametrize("state", [state for state in R if state is not R.SCHEDULED])
def test_only_a_scheduled_run_is_claimed(occurrence: Occurrence, task: Task, state: RunState) -> None:
    run = saved(a_run(occurrence, task, state))
    assert claim([run.id], worker="w", now=LATER) == ()
    occurrence.refresh_from_db()
    assert occurrence.state == S.DISPATCHED, "nothing claimed, nothing started"


@pytest.mark.parametrize("state", [state for state in S if state not in OCCURRENCE_ACTIVE])
def test_a_run_of_an_occurrence_that_is_not_under_way_is_not_claimed(
    job: Job, task: Task, state: OccurrenceState
) -> None:
    run = saved(a_run(saved(an_occurrence(job, NOW, state)), task))
    assert claim([run.id], worker="w", now=LATER) == ()
    assert not Attempt.objects.exists()


def test_a_run_that_is_not_available_yet_is_not_claimed(occurrence: Occurrence, task: Task) -> None:
    run = saved(a_run(occurrence, task, available_at=LATER + timedelta(seconds=1)))
    assert claim([run.id], worker="w", now=LATER) == ()
    occurrence.refresh_from_db()
    assert occurrence.state == S.DISPATCHED


@pytest.mark.django_db
def test_unknown_runs_and_an_empty_message_claim_nothing() -> None:
    assert claim([uuid4()], worker="w", now=NOW) == ()
    assert claim([], worker="w", now=NOW) == ()


def test_a_later_attempt_counts_on_and_starts_nothing_again(occurrence: Occurrence, task: Task) -> None:
    run = saved(a_run(occurrence, task, attempts_made=2))
    for number in (0, 1):
        saved(an_attempt(run, "failed", number=number))  # type: ignore[arg-type]
    Occurrence.objects.update(state=S.RUNNING, started_at=NOW)
    claimed = claim([run.id], worker="w", now=LATER)
    assert [(item.number, item.run.first) for item in claimed] == [(2, False)]
    assert Occurrence.objects.get().started_at == NOW


def test_a_message_of_several_runs_claims_those_that_can_be(
    occurrence: Occurrence, run: TaskRun, second: Task
) -> None:
    done = saved(a_run(occurrence, second, R.SUCCESS))
    claimed = claim([done.id, run.id], worker="w", now=LATER, lease=timedelta(minutes=5))
    assert [item.run.id for item in claimed] == [run.id]
    assert TaskRun.objects.get(id=run.id).lease_until == LATER + timedelta(minutes=5)


@pytest.fixture
def bundle(occurrence: Occurrence, run: TaskRun, second: Task) -> list[TaskRun]:
    return [saved(a_run(occurrence, second)), run]


def test_the_runs_of_a_bundle_are_claimed_and_none_has_begun(bundle: list[TaskRun]) -> None:
    claimed = claim([run.id for run in bundle], worker="w", now=LATER)
    assert [(item.run.id, item.began_at, item.number) for item in claimed] == [
        (bundle[0].id, None, 0),
        (bundle[1].id, None, 0),
    ]
    rows = TaskRun.objects.filter(id__in=[run.id for run in bundle])
    assert set(rows.values_list("state", "attempts_made", "lease_until")) == {("claimed", 0, LATER + LEASE)}
    assert not Attempt.objects.exists()


def begun_of(bundle: list[TaskRun], at: datetime = LATER) -> Claim:
    held = claim([run.id for run in bundle], worker="w", now=NOW)[1]
    begun = begin(held, now=at)
    assert begun is not None
    return begun


def test_an_attempt_begun_in_memory_is_recorded_once_with_the_time_it_began(bundle: list[TaskRun]) -> None:
    begun = begun_of(bundle)
    assert (begun.began_at, begun.number) == (LATER, 0)
    assert columns_of(TaskRun, begun.run.id)["state"] == R.CLAIMED
    for _ in range(2):
        record_attempts([begun.begun], now=LATER + timedelta(seconds=1))
    attempt = Attempt.objects.get(run=begun.run.id)
    assert (attempt.id, attempt.worker, attempt.started_at) == (attempt_id(begun.run.id, 0), "w", LATER)
    row = columns_of(TaskRun, begun.run.id)
    assert (row["state"], row["started_at"], row["attempts_made"]) == (R.RUNNING, LATER, 1)


def test_a_run_canceled_after_it_began_gets_a_canceled_attempt(bundle: list[TaskRun]) -> None:
    begun = begun_of(bundle)
    transitions.cancel([begun.run.id], reason="operator", now=LATER)
    for _ in range(2):
        record_attempts([begun.begun], now=LATER)
    attempt = Attempt.objects.get(run=begun.run.id)
    assert (attempt.state, attempt.number, columns_of(TaskRun, begun.run.id)["attempts_made"]) == (
        "canceled",
        0,
        1,
    )


def test_the_attempt_of_a_run_claimed_by_another_worker_is_not_recorded(bundle: list[TaskRun]) -> None:
    begun = begun_of(bundle)
    record_attempts([replace(begun, token=uuid4()).begun], now=LATER)
    assert not Attempt.objects.exists()


def test_a_run_handed_back_can_be_claimed_by_another_worker_at_once(bundle: list[TaskRun]) -> None:
    held = claim([run.id for run in bundle], worker="w", now=NOW)[1:]
    assert hand_back(held, now=LATER) == (bundle[1].id,)
    (other,) = claim([bundle[1].id], worker="other", now=LATER)
    assert (other.number, other.token != held[0].token) == (0, True)
    assert hand_back([], now=LATER) == ()


def test_a_claimed_run_begins_only_while_its_lease_is_valid(bundle: list[TaskRun]) -> None:
    held = claim([run.id for run in bundle], worker="w", now=NOW)[1]
    assert begin(held, now=NOW + LEASE) is None
    assert begin(held, now=NOW + LEASE - timedelta(microseconds=1)) is not None
