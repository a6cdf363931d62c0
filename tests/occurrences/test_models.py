"""The database refuses impossible rows."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import IntegrityError, models, transaction

from punctual.jobs.check_constraints import Rules
from punctual.jobs.ids import attempt_id, job_id, occurrence_id, run_id, task_id
from punctual.jobs.models import Job, JobVersion, Pause, Task
from punctual.occurrences.models import Attempt, IdempotencyKey, Occurrence, TaskRun
from punctual.occurrences.states import (
    ATTEMPT_FINAL,
    OCCURRENCE_ACTIVE,
    OCCURRENCE_FINAL,
    OCCURRENCE_OPEN,
    RUN_FINAL,
    RUN_HELD,
    RUN_OPEN,
    AttemptState,
    OccurrenceState,
    RunState,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-3")]

# Columns that make a row of each state possible; the tests remove them one at a time.
FIRED = {"fired_at"}
STARTED = FIRED | {"started_at"}
FACTS: dict[OccurrenceState, set[str]] = {
    OccurrenceState.DISPATCHED: FIRED,
    OccurrenceState.RUNNING: STARTED,
    **{state: STARTED | {"finished_at"} for state in OCCURRENCE_FINAL},
}


@pytest.fixture
def job(now: datetime) -> Job:
    return make_job("report", now)


@pytest.fixture
def task(job: Job, now: datetime) -> Task:
    return Task.objects.create(
        id=task_id(job.id, "send"),
        job=job,
        name="send",
        function="reports.send",
        position=0,
        created_at=now,
        updated_at=now,
    )


@pytest.fixture
def occurrence(job: Job, now: datetime) -> Occurrence:
    return insert_occurrence(job, now, OccurrenceState.RUNNING)


@pytest.fixture
def run(occurrence: Occurrence, task: Task, now: datetime) -> TaskRun:
    return insert_run(occurrence, task, now, RunState.RUNNING)


def make_job(name: str, now: datetime, **values: Any) -> Job:
    row = {"id": job_id(name), "name": name, "schedule": "@every 1h"} | values
    return Job.objects.create(created_at=now, updated_at=now, **row)


def insert_occurrence(
    job: Job, scheduled_for: datetime, state: OccurrenceState | str, **values: Any
) -> Occurrence:
    facts = FACTS.get(OccurrenceState(state), set()) if state in OccurrenceState.values else set()
    row: dict[str, Any] = {
        "id": occurrence_id(job.id, scheduled_for),
        "job_version": 1,
        "scheduled_for": scheduled_for,
        "run_at": scheduled_for,
        "created_at": scheduled_for,
        "exclusive": True,
        "execution_timeout": timedelta(hours=1),
        **dict.fromkeys(facts, scheduled_for),
    }
    return Occurrence.objects.create(job=job, state=state, **row | values)


def insert_run(
    occurrence: Occurrence, task: Task, now: datetime, state: RunState | str, **values: Any
) -> TaskRun:
    row: dict[str, Any] = {"id": run_id(occurrence.id, task.id), "position": 0}
    if state in RUN_HELD:
        row |= {"claim_token": uuid4(), "lease_until": now}
    if state in RUN_FINAL:
        row |= {"finished_at": now}
    return TaskRun.objects.create(occurrence=occurrence, task=task, state=state, **row | values)


def insert_attempt(run: TaskRun, number: int, state: AttemptState | str, **values: Any) -> Attempt:
    at = run.lease_until
    row: dict[str, Any] = {"id": attempt_id(run.id, number), "number": number, "started_at": at}
    if state in ATTEMPT_FINAL:
        row |= {"finished_at": at}
    return Attempt.objects.create(run=run, state=state, **row | values)


def assert_refused(name: str) -> "pytest.RaisesExc[IntegrityError]":
    return pytest.raises(IntegrityError, match=name)


@pytest.mark.parametrize("state", OccurrenceState)
def test_every_occurrence_state_can_be_stored(job: Job, now: datetime, state: OccurrenceState) -> None:
    assert insert_occurrence(job, now, state).state == state


def test_an_unknown_occurrence_state_is_refused(job: Job, now: datetime) -> None:
    with assert_refused("occurrence_state_is_known"):
        insert_occurrence(job, now, "sleeping")


@pytest.mark.parametrize("state", OCCURRENCE_OPEN)
def test_an_open_occurrence_cannot_have_finished(job: Job, now: datetime, state: OccurrenceState) -> None:
    with assert_refused("occurrence_finished_iff_final"):
        insert_occurrence(job, now, state, finished_at=now)


@pytest.mark.parametrize("state", OCCURRENCE_FINAL)
def test_a_final_occurrence_has_a_finish_time(job: Job, now: datetime, state: OccurrenceState) -> None:
    with assert_refused("occurrence_finished_iff_final"):
        insert_occurrence(job, now, state, finished_at=None)


def test_a_running_occurrence_has_a_start_time(job: Job, now: datetime) -> None:
    with assert_refused("occurrence_running_has_started"):
        insert_occurrence(job, now, OccurrenceState.RUNNING, started_at=None)


@pytest.mark.parametrize("state", OCCURRENCE_ACTIVE)
def test_an_active_occurrence_was_fired(job: Job, now: datetime, state: OccurrenceState) -> None:
    with assert_refused("occurrence_active_was_fired"):
        insert_occurrence(job, now, state, fired_at=None)


@pytest.mark.req("LIM-4")
@pytest.mark.parametrize("state", OccurrenceState)
def test_a_slot_is_held_or_wanted_by_active_occurrences_only(
    job: Job, now: datetime, state: OccurrenceState
) -> None:
    for values in ({"holds_slot": True}, {"slot_wanted_at": now}):
        if state in OCCURRENCE_ACTIVE:
            insert_occurrence(job, now, state, **values).delete()
            continue
        with assert_refused("occurrence_slot_while_active"), transaction.atomic():
            insert_occurrence(job, now, state, **values)
    with assert_refused("occurrence_slot_while_active"), transaction.atomic():
        insert_occurrence(job, now, state, holds_slot=True, slot_wanted_at=now)


@pytest.mark.req("LIM-4")
@pytest.mark.parametrize("state", [*RUN_HELD, *RUN_FINAL, RunState.FAILED])
def test_a_run_that_does_not_wait_is_not_parked(
    occurrence: Occurrence, task: Task, now: datetime, state: RunState
) -> None:
    with assert_refused("run_parked_while_waiting"):
        insert_run(occurrence, task, now, state, parked_at=now)


@pytest.mark.req("OCC-4")
@pytest.mark.parametrize("first", OCCURRENCE_ACTIVE)
@pytest.mark.parametrize("second", OCCURRENCE_ACTIVE)
def test_an_exclusive_job_has_one_active_occurrence(
    job: Job, now: datetime, first: OccurrenceState, second: OccurrenceState
) -> None:
    insert_occurrence(job, now, first)
    with pytest.raises(IntegrityError), transaction.atomic():
        insert_occurrence(job, now + timedelta(hours=1), second)
    assert Occurrence.objects.active().count() == 1


@pytest.mark.req("OCC-4")
@pytest.mark.parametrize("state", [*OCCURRENCE_FINAL, "pending", "queued"])
def test_waiting_and_finished_occurrences_do_not_block_an_exclusive_job(
    job: Job, now: datetime, state: OccurrenceState
) -> None:
    insert_occurrence(job, now, state)
    insert_occurrence(job, now + timedelta(hours=1), OccurrenceState.RUNNING)
    insert_occurrence(job, now + timedelta(hours=2), state)
    assert Occurrence.objects.count() == 3


@pytest.mark.req("OCC-4")
def test_a_job_that_allows_overlap_has_several_active_occurrences(job: Job, now: datetime) -> None:
    for hours in range(3):
        at = now + timedelta(hours=hours)
        insert_occurrence(job, at, OccurrenceState.RUNNING, exclusive=False)
    assert Occurrence.objects.active().count() == 3


@pytest.mark.req("OCC-4")
def test_exclusive_jobs_do_not_block_each_other(job: Job, now: datetime) -> None:
    insert_occurrence(job, now, OccurrenceState.RUNNING)
    insert_occurrence(make_job("other", now), now, OccurrenceState.RUNNING)
    assert Occurrence.objects.active().count() == 2


@pytest.mark.req("OCC-2")
def test_an_instant_of_a_job_has_one_row(job: Job, now: datetime) -> None:
    insert_occurrence(job, now, OccurrenceState.PENDING)
    with pytest.raises(IntegrityError):
        insert_occurrence(job, now, OccurrenceState.PENDING)


@pytest.mark.parametrize("state", RunState)
def test_every_run_state_can_be_stored(
    occurrence: Occurrence, task: Task, now: datetime, state: RunState
) -> None:
    assert insert_run(occurrence, task, now, state).state == state


def test_an_unknown_run_state_is_refused(occurrence: Occurrence, task: Task, now: datetime) -> None:
    with assert_refused("run_state_is_known"):
        insert_run(occurrence, task, now, "sleeping")


@pytest.mark.parametrize("state", RUN_OPEN)
def test_an_open_run_cannot_have_finished(
    occurrence: Occurrence, task: Task, now: datetime, state: RunState
) -> None:
    with assert_refused("run_finished_iff_final"):
        insert_run(occurrence, task, now, state, finished_at=now)


@pytest.mark.parametrize("state", RUN_FINAL)
def test_a_final_run_has_a_finish_time(
    occurrence: Occurrence, task: Task, now: datetime, state: RunState
) -> None:
    with assert_refused("run_finished_iff_final"):
        insert_run(occurrence, task, now, state, finished_at=None)


@pytest.mark.req("TSK-2")
@pytest.mark.parametrize("state", RUN_HELD)
@pytest.mark.parametrize("fact", ["claim_token", "lease_until"])
def test_a_held_run_has_a_token_and_a_lease(
    occurrence: Occurrence, task: Task, now: datetime, state: RunState, fact: str
) -> None:
    with assert_refused("run_claimed_iff_held"):
        insert_run(occurrence, task, now, state, **{fact: None})


@pytest.mark.req("TSK-2")
@pytest.mark.parametrize("state", [state for state in RunState if state not in RUN_HELD])
@pytest.mark.parametrize("fact", ["claim_token", "lease_until"])
def test_a_run_that_is_not_held_has_neither_token_nor_lease(
    occurrence: Occurrence, task: Task, now: datetime, state: RunState, fact: str
) -> None:
    with assert_refused("run_claimed_iff_held"):
        insert_run(occurrence, task, now, state, **{fact: uuid4() if fact == "claim_token" else now})


@pytest.mark.parametrize("state", AttemptState)
def test_every_attempt_state_can_be_stored(run: TaskRun, state: AttemptState) -> None:
    assert insert_attempt(run, 0, state).state == state


def test_an_unknown_attempt_state_is_refused(run: TaskRun) -> None:
    with assert_refused("attempt_state_is_known|attempt_finished_iff_final"):
        insert_attempt(run, 0, "sleeping")


def test_a_running_attempt_cannot_have_finished(run: TaskRun, now: datetime) -> None:
    with assert_refused("attempt_finished_iff_final"):
        insert_attempt(run, 0, AttemptState.RUNNING, finished_at=now)


@pytest.mark.parametrize("state", ATTEMPT_FINAL)
def test_an_attempt_that_is_over_has_a_finish_time(run: TaskRun, state: AttemptState) -> None:
    with assert_refused("attempt_finished_iff_final"):
        insert_attempt(run, 0, state, finished_at=None)


def test_a_run_has_one_attempt_of_each_number(run: TaskRun) -> None:
    insert_attempt(run, 0, AttemptState.FAILED)
    with pytest.raises(IntegrityError):
        insert_attempt(run, 0, AttemptState.FAILED, id=uuid4())


@pytest.mark.req("JOB-1")
def test_a_name_belongs_to_one_job_and_is_not_empty(job: Job, now: datetime) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        make_job(job.name, now, id=uuid4())
    with assert_refused("job_has_a_name"):
        make_job("", now)


@pytest.mark.req("TSK-4")
def test_an_idempotency_key_belongs_to_one_occurrence_of_its_job(
    occurrence: Occurrence, now: datetime
) -> None:
    row: dict[str, Any] = {
        "job": occurrence.job,
        "key": "order-7",
        "occurrence_id": occurrence.id,
        "request": "a digest",
        "expires_at": now,
    }
    IdempotencyKey.objects.create(**row)
    with pytest.raises(IntegrityError):
        IdempotencyKey.objects.create(**row)


def test_a_job_version_counts_from_one(now: datetime) -> None:
    with assert_refused("job_version_starts_at_one"):
        make_job("report", now, version=0)


@pytest.mark.req("JOB-5")
def test_a_version_number_is_given_once_and_counts_from_one(job: Job, now: datetime) -> None:
    row: dict[str, Any] = {"job": job, "author": "ada", "after": {}, "created_at": now}
    JobVersion.objects.create(number=1, **row)
    with pytest.raises(IntegrityError), transaction.atomic():
        JobVersion.objects.create(number=1, **row)
    with assert_refused("versions_start_at_one"):
        JobVersion.objects.create(number=0, **row)


@pytest.mark.req("JOB-8")
def test_a_job_has_one_pause_at_a_time_and_it_ends_after_it_begins(job: Job, now: datetime) -> None:
    row: dict[str, Any] = {"job": job, "began_at": now, "backlog": "none"}
    Pause.objects.create(ended_at=now, **row)
    with pytest.raises(IntegrityError), transaction.atomic():
        Pause.objects.create(ended_at=now, **row)
    with assert_refused("pause_ends_after_it_begins"):
        Pause.objects.create(ended_at=now - timedelta(seconds=1), **row)


def test_a_task_name_is_unique_in_its_job_and_not_empty(task: Task) -> None:
    row = {"job": task.job, "function": "f", "position": 1}
    row |= {"created_at": task.created_at, "updated_at": task.updated_at}
    with pytest.raises(IntegrityError), transaction.atomic():
        Task.objects.create(id=uuid4(), name=task.name, **row)
    with assert_refused("task_has_a_name"):
        Task.objects.create(id=uuid4(), name="", **row)


@pytest.mark.req("OCC-5")
@pytest.mark.parametrize("state", [OccurrenceState.PENDING, OccurrenceState.COMPLETED])
def test_a_row_that_stands_for_a_range_cannot_run(job: Job, now: datetime, state: OccurrenceState) -> None:
    until = now + timedelta(hours=1)
    with assert_refused("occurrence_range_never_runs"), transaction.atomic():
        insert_occurrence(job, now, state, spans_until=until, instants=60)
    insert_occurrence(job, now, OccurrenceState.MISSED, spans_until=until, instants=60)


@pytest.mark.req("OCC-5")
@pytest.mark.parametrize(("minutes", "instants"), [(None, 2), (0, 2), (60, 1)])
def test_a_range_has_an_end_after_its_start_and_more_than_one_instant(
    job: Job, now: datetime, minutes: int | None, instants: int
) -> None:
    until = None if minutes is None else now + timedelta(minutes=minutes)
    with assert_refused("occurrence_range_never_runs"):
        insert_occurrence(job, now, OccurrenceState.MISSED, spans_until=until, instants=instants)


@pytest.mark.parametrize(
    ("state", "facts"),
    [
        (RunState.SUCCESS, {"resolution", "resolved_at"}),
        (RunState.DLQ, {"resolved_at"}),
        (RunState.DLQ, {"resolution"}),
    ],
)
def test_only_a_dead_letter_is_resolved_and_says_how(
    occurrence: Occurrence, task: Task, now: datetime, state: RunState, facts: set[str]
) -> None:
    values = {"resolution": "purged", "resolved_at": now}
    with assert_refused("run_resolved_only_when_dead"):
        insert_run(occurrence, task, now, state, **{fact: values[fact] for fact in facts})


def test_no_constraint_goes_without_a_test() -> None:
    """A new constraint of these models needs a test in this file."""
    covered = {
        "job_has_a_name",
        "job_version_starts_at_one",
        "one_task_per_name",
        "one_version_per_number",
        "versions_start_at_one",
        "one_pause_per_beginning",
        "pause_ends_after_it_begins",
        "task_has_a_name",
        "one_active_occurrence_per_exclusive_job",
        "one_occurrence_per_idempotency_key_of_a_job",
        "occurrence_state_is_known",
        "occurrence_finished_iff_final",
        "occurrence_running_has_started",
        "occurrence_active_was_fired",
        "occurrence_range_never_runs",
        "occurrence_slot_while_active",
        "run_parked_while_waiting",
        "run_state_is_known",
        "run_finished_iff_final",
        "run_claimed_iff_held",
        "run_resolved_only_when_dead",
        "one_attempt_per_number",
        "attempt_state_is_known",
        "attempt_finished_iff_final",
    }
    assert constraint_names() == covered


def constraint_names() -> set[str]:
    owners: list[type[models.Model]] = [
        model
        for model in apps.get_app_config("punctual").get_models()
        if model.__module__.startswith(("punctual.jobs.", "punctual.occurrences."))
    ]
    found = [constraint for model in owners for constraint in model._meta.constraints]
    rules = {rule for item in found if isinstance(item, Rules) for rule in item.rules}
    return rules | {item.name for item in found if not isinstance(item, Rules)}
