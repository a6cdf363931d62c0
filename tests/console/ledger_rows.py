"""Make rows of the ledger in any state that the database allows."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from punctual.jobs.config.cascade import merge_layers
from punctual.jobs.config.keys import TASK_KEYS
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.ids import attempt_id, job_id, occurrence_id, run_id, task_id
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import (
    ATTEMPT_FINAL,
    OCCURRENCE_ACTIVE,
    OCCURRENCE_FINAL,
    RUN_FINAL,
    RUN_HELD,
    AttemptState,
    OccurrenceState,
    RunState,
)

SECOND = timedelta(seconds=1)


def work(ctx: object) -> None:
    """The function of the tasks."""


def make_job(name: str, now: datetime, **facts: Any) -> Job:
    defaults = {"schedule": "0 2 * * *", "origin": "code", "created_at": now, "updated_at": now}
    return Job.objects.create(id=job_id(name), name=name, **(defaults | facts))


def make_task(job: Job, name: str = "step", *, registered: bool = True, **facts: Any) -> Task:
    function = f"tests.{job.name}.{name}"
    if registered:
        registry.functions[function] = TaskFunction(function, work)
    defaults = {"position": 0, "created_at": job.created_at, "updated_at": job.created_at}
    return Task.objects.create(
        id=task_id(job.id, name), job=job, name=name, function=function, **(defaults | facts)
    )


def make_occurrence(
    job: Job, at: datetime, state: OccurrenceState = OccurrenceState.COMPLETED, **facts: Any
) -> Occurrence:
    over = state in OCCURRENCE_FINAL
    begun = over or state == OccurrenceState.RUNNING
    defaults = {
        "job_version": 1,
        "exclusive": False,
        "execution_timeout": timedelta(hours=1),
        "run_at": at,
        "created_at": at,
        "fired_at": at if over or state in OCCURRENCE_ACTIVE else None,
        "holds_slot": state in OCCURRENCE_ACTIVE,
        "started_at": at if begun else None,
        "finished_at": at + SECOND if over else None,
    }
    id_ = occurrence_id(job.id, at)
    return Occurrence.objects.create(id=id_, job=job, scheduled_for=at, state=state, **(defaults | facts))


def make_run(occurrence: Occurrence, task: Task, state: RunState = RunState.SUCCESS, **facts: Any) -> TaskRun:
    at, held = occurrence.scheduled_for, state in RUN_HELD
    defaults = {
        "position": task.position,
        "policy": merge_layers({"job": occurrence.job.config, "task": task.config}).to_json(TASK_KEYS),
        "available_at": at,
        "dispatched_at": at,
        "claim_token": uuid4() if held else None,
        "lease_until": at + SECOND if held else None,
        "finished_at": at + SECOND if state in RUN_FINAL else None,
    }
    id_ = run_id(occurrence.id, task.id)
    return TaskRun.objects.create(id=id_, occurrence=occurrence, task=task, state=state, **(defaults | facts))


def make_attempt(
    run: TaskRun, number: int = 0, state: AttemptState = AttemptState.SUCCESS, **facts: Any
) -> Attempt:
    at = run.occurrence.scheduled_for
    over = at + SECOND if state in ATTEMPT_FINAL else None
    return Attempt.objects.create(
        id=attempt_id(run.id, number),
        run=run,
        number=number,
        state=state,
        **({"started_at": at, "finished_at": over} | facts),
    )


def make_story(name: str, now: datetime) -> tuple[Job, Occurrence, TaskRun, Attempt]:
    """Make one job, run once, with one attempt."""
    job = make_job(name, now)
    occurrence = make_occurrence(job, now)
    run = make_run(occurrence, make_task(job))
    return job, occurrence, run, make_attempt(run)
