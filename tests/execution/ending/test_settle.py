from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from punctual.execution.ending.settle import Settled, settle
from punctual.jobs.declaration.registry import Registry, registry
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OCCURRENCE_ACTIVE, OccurrenceState, Reason, RunState
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_run, an_attempt, an_occurrence, columns_of, saved

LATER = NOW + timedelta(minutes=1)
S, R = OccurrenceState, RunState


@pytest.fixture(autouse=True)
def empty_registry() -> Iterator[Registry]:
    with registry.isolated():
        yield registry


@pytest.fixture
def occurrence(job: Job) -> Occurrence:
    return saved(an_occurrence(job, NOW, S.RUNNING))


@pytest.mark.req("EXE-1")
def test_an_occurrence_whose_runs_are_over_is_closed_with_a_report(
    occurrence: Occurrence, task: Task
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    assert settle([occurrence.id], now=LATER) == Settled(finished=(occurrence.id,))
    occurrence.refresh_from_db()
    assert (occurrence.state, occurrence.finished_at, occurrence.finalized_at) == (S.COMPLETED, LATER, LATER)
    assert occurrence.report is not None
    assert occurrence.report["duration"] == 60.0


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize("state", [R.SCHEDULED, R.CLAIMED, R.RUNNING])
def test_an_occurrence_with_work_under_way_is_left_alone(
    occurrence: Occurrence, task: Task, state: RunState
) -> None:
    saved(a_run(occurrence, task, state))
    before = columns_of(Occurrence, occurrence.id)
    assert settle([occurrence.id], now=LATER) == Settled()
    assert columns_of(Occurrence, occurrence.id) == before


@pytest.mark.parametrize("state", [state for state in S if state not in OCCURRENCE_ACTIVE])
def test_an_inactive_occurrence_cannot_be_settled(job: Job, task: Task, state: OccurrenceState) -> None:
    row = saved(an_occurrence(job, NOW, state))
    saved(a_run(row, task, R.SUCCESS))
    before = columns_of(Occurrence, row.id)
    assert settle([row.id], now=LATER) == Settled()
    assert columns_of(Occurrence, row.id) == before


@pytest.mark.django_db
def test_settling_nothing_or_an_unknown_id_is_no_error() -> None:
    assert settle([], now=NOW) == settle([uuid4()], now=NOW) == Settled()


def test_settling_twice_changes_nothing_the_second_time(occurrence: Occurrence, task: Task) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    settle([occurrence.id], now=LATER)
    before = columns_of(Occurrence, occurrence.id)
    assert settle([occurrence.id], now=LATER + timedelta(days=1)) == Settled()
    assert columns_of(Occurrence, occurrence.id) == before


@pytest.mark.req("EXE-2")
@pytest.mark.req("EXE-8")
def test_a_failure_cancels_its_neighbours_and_the_report_says_why(
    occurrence: Occurrence, task: Task, second: Task
) -> None:
    saved(a_run(occurrence, task, R.DLQ, reason="failed after 1 attempts"))
    neighbour = saved(a_run(occurrence, second, R.RUNNING))
    attempt = saved(an_attempt(neighbour))
    settle([occurrence.id], now=LATER)

    neighbour.refresh_from_db()
    occurrence.refresh_from_db()
    assert (neighbour.state, neighbour.reason, neighbour.finished_at) == (
        R.CANCELED,
        f"{Reason.OTHER_TASK_FAILED}: first",
        LATER,
    )
    assert columns_of(Attempt, attempt.id)["state"] == "canceled"
    assert occurrence.state == S.FAILED
    assert occurrence.report is not None
    assert [task["reason"] for task in occurrence.report["tasks"]] == [
        "failed after 1 attempts",
        f"{Reason.OTHER_TASK_FAILED}: first",
    ]
    assert [task["canceled_by"] for task in occurrence.report["tasks"]] == [None, "first"]
    (listed,) = occurrence.report["tasks"][1]["attempts"]
    assert (listed["status"], listed["finished_at"]) == ("canceled", LATER.isoformat())
    assert occurrence.report["tasks"][1]["status"] == "canceled"


@pytest.mark.req("EXE-1")
def test_a_sequence_whose_worker_died_between_two_steps_goes_on(
    occurrence: Occurrence, task: Task, second: Task
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    waiting = saved(a_run(occurrence, second, available_at=None))
    assert settle([occurrence.id], now=LATER) == Settled(released=(waiting.id,))
    assert TaskRun.objects.get(id=waiting.id).available_at == LATER


@pytest.mark.req("JOB-9")
def test_an_occurrence_is_not_finalized_when_its_job_has_hooks(occurrence: Occurrence, task: Task) -> None:
    occurrence.config["on_complete"] = ["a.hook"]
    occurrence.save()
    saved(a_run(occurrence, task, R.SUCCESS))
    settle([occurrence.id], now=LATER)
    occurrence.refresh_from_db()
    assert (occurrence.finished_at, occurrence.finalized_at) == (LATER, None)


@pytest.mark.req("OCC-4")
def test_the_freed_slot_goes_to_the_next_in_line_at_once(occurrence: Occurrence, task: Task) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    job = occurrence.job
    queue = [saved(an_occurrence(job, NOW + timedelta(seconds=n), S.QUEUED)) for n in (2, 1)]
    settled = settle([occurrence.id], now=LATER)

    assert [columns_of(Occurrence, row.id)["state"] for row in queue] == ["queued", "dispatched"]
    (run,) = TaskRun.objects.filter(occurrence=queue[1])
    assert settled == Settled(released=(run.id,), finished=(occurrence.id,))


@pytest.mark.req("OCC-4")
def test_a_successor_that_cannot_run_does_not_take_the_result_of_its_predecessor_along(
    occurrence: Occurrence, task: Task
) -> None:
    saved(a_run(occurrence, task, R.SUCCESS))
    saved(an_occurrence(occurrence.job, NOW + timedelta(seconds=1), S.QUEUED))
    Occurrence.objects.filter(state=S.QUEUED).update(config={"queue": 7})
    assert settle([occurrence.id], now=LATER).finished == (occurrence.id,)
    states = Occurrence.objects.order_by("scheduled_for").values_list("state", flat=True)
    assert list(states) == ["completed", "skipped"]
