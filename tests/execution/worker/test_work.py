from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection

from punctual import Context
from punctual import Job as DeclaredJob
from punctual.execution.worker.work import settle_now, work
from punctual.jobs.declaration.registry import Registry, TaskFunction
from punctual.jobs.models import Job, Task
from punctual.occurrences import transitions
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from tests.execution.conftest import NOW
from tests.harness import Harness, hook_into
from tests.occurrences.factories import a_run, an_occurrence, saved

S, R = OccurrenceState, RunState


def clock() -> datetime:
    return NOW


@pytest.fixture
def run(job: Job, task: Task) -> TaskRun:
    return saved(a_run(saved(an_occurrence(job, NOW, S.DISPATCHED)), task))


def register(declared: Registry, call: Callable[..., Any], *, transactional: bool = False) -> None:
    declared.functions["nowhere.first"] = TaskFunction("nowhere.first", call, transactional)


def perform(run: TaskRun) -> int:
    return work([run.id], worker="w", clock=clock)


@pytest.fixture(autouse=True)
def everything(declared: Registry, queue: Harness) -> None:
    """Every test in this file uses both fixtures."""


def test_a_message_is_processed_once(declared: Registry, run: TaskRun) -> None:
    calls: list[Context] = []
    register(declared, calls.append)
    assert [perform(run), perform(run)] == [1, 0]
    assert len(calls) == 1
    assert Occurrence.objects.get().state == S.COMPLETED


@pytest.mark.django_db
def test_a_message_for_unknown_runs_is_ignored() -> None:
    assert work([uuid4()], worker="w", clock=clock) == 0
    assert settle_now([uuid4()], clock=clock) == 0


@pytest.mark.req("EXE-1")
def test_the_next_step_of_a_sequence_is_sent_on(
    declared: Registry, queue: Harness, run: TaskRun, second: Task
) -> None:
    following = saved(a_run(run.occurrence, second, available_at=None))
    register(declared, lambda _: None)
    perform(run)
    assert queue.take() == ("punctual.run", [str(following.id)])


@pytest.mark.req("EXE-6")
def test_a_transactional_task_s_effects_commit_with_its_success(declared: Registry, run: TaskRun) -> None:
    register(declared, lambda _: Job.objects.update(metadata={"done": "yes"}), transactional=True)
    perform(run)
    assert Job.objects.get().metadata == {"done": "yes"}
    assert Attempt.objects.get().state == "success"


@pytest.mark.req("EXE-6")
def test_a_transactional_task_that_lost_its_claim_leaves_no_effect(declared: Registry, run: TaskRun) -> None:
    def slow(ctx: Context) -> None:
        transitions.cancel([run.id], reason="reaped meanwhile", now=NOW)
        TaskRun.objects.filter(id=run.id).update(reason="taken")
        Job.objects.update(metadata={"done": "twice"})

    register(declared, slow, transactional=True)
    assert perform(run) == 1
    assert Job.objects.get().metadata == {}


@pytest.mark.req("EXE-6")
def test_a_transactional_task_that_swallowed_a_database_error_is_a_failure(
    declared: Registry, run: TaskRun
) -> None:
    def careless(ctx: Context) -> None:
        Job.objects.update(metadata={"done": "half"})
        with suppress(IntegrityError):
            Job.objects.create(id=uuid4(), name="job", schedule="", created_at=NOW, updated_at=NOW)
        if connection.vendor == "sqlite":  # which does not abort the transaction by itself
            connection.needs_rollback = True

    register(declared, careless, transactional=True)
    perform(run)
    assert Attempt.objects.get().state == "failed"
    assert (TaskRun.objects.get().state, Job.objects.get().metadata) == (R.RETRY, {})


@pytest.mark.req("REC-3")
def test_a_request_to_settle_closes_what_is_over_and_calls_hooks_still_owed(
    declared: Registry, job: Job, task: Task
) -> None:
    seen: list[Any] = []
    declaration = DeclaredJob("job", "@hourly")
    declaration.on_complete(hook_into(seen))
    unsettled = saved(an_occurrence(job, NOW, S.RUNNING, config=declaration.config))
    saved(a_run(unsettled, task, R.SUCCESS))
    assert settle_now([unsettled.id], clock=clock) == 1
    columns: dict[str, Any] = {"config": declaration.config, "report": {"outcome": "failed"}}
    owed = saved(an_occurrence(job, NOW.replace(hour=13), S.FAILED, **columns))
    assert settle_now([owed.id], clock=clock) == 1
    assert [report["outcome"] for report in seen] == ["completed", "failed"]
