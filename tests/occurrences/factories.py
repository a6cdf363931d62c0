"""Build rows of the ledger, saved or unsaved, with the configuration that real ones have."""

import json
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

from punctual.jobs.config.cascade import merge_layers
from punctual.jobs.config.keys import TASK_KEYS
from punctual.jobs.ids import attempt_id, job_id, occurrence_id, run_id, task_id
from punctual.jobs.models import Job, Task
from punctual.jobs.store.raw_edits import record_raw_edits
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.engines.contract import ClaimedRun, OccurrenceFacts, RunEnd, RunFacts
from punctual.occurrences.models import Attempt, Cursor, Occurrence, TaskRun
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

LEASE = timedelta(seconds=30)
Row = TypeVar("Row", Job, Task, Occurrence, TaskRun, Attempt)


def a_job(name: str, now: datetime, **columns: Any) -> Job:
    row: dict[str, Any] = {"schedule": "0 * * * *", "origin": "code", "created_at": now, "updated_at": now}
    return Job(id=job_id(name), name=name, **row | columns)


def a_task(job: Job, name: str = "step", **columns: Any) -> Task:
    row: dict[str, Any] = {"function": f"nowhere.{name}", "position": 0}
    row |= {"created_at": job.created_at, "updated_at": job.updated_at}
    return Task(id=task_id(job.id, name), job=job, name=name, **row | columns)


def an_occurrence(
    job: Job, at: datetime, state: OccurrenceState = OccurrenceState.PENDING, **columns: Any
) -> Occurrence:
    config = merge_layers({"job": job.config | columns.pop("config", {})})
    row: dict[str, Any] = {
        "id": occurrence_id(job.id, at),
        "job_version": job.version,
        "scheduled_for": at,
        "run_at": at,
        "created_at": at,
        "exclusive": config.overlap != "allow",
        "config": config.to_json(),
        "metadata": job.metadata,
        "execution_timeout": config.execution_timeout,
    }
    if state in OCCURRENCE_ACTIVE:
        row |= {"fired_at": at, "holds_slot": True}
    if state == OccurrenceState.RUNNING:
        row |= {"started_at": at, "deadline_at": at + config.execution_timeout}
    if state in OCCURRENCE_FINAL:
        row |= {"finished_at": at}
    return Occurrence(job=job, state=state, **row | columns)


def as_due(row: Occurrence) -> Due:
    """The facts that admission reads of a row, which need not be saved; without the tasks of its version."""
    job = row.job
    values = {name: getattr(row, name) for name in Due._fields if hasattr(row, name)}
    values |= {name: getattr(job, name) for name in Due._fields if name not in values and hasattr(job, name)}
    values |= {name: json.dumps(getattr(row, name)) for name in ("overrides", "config")}
    values |= {"overlap": row.config["overlap"], "mode": row.config["mode"]}
    values |= {"on_start": json.dumps(row.config["on_start"])}
    values |= {"only_tasks": None if row.only_tasks is None else json.dumps(row.only_tasks)}
    values |= {"version": row.job_version, "current_version": job.version, "tasks": None}
    return Due(**values | {"id": str(row.id), "job_id": str(row.job_id), "job": job.name})


def a_run(
    occurrence: Occurrence, task: Task, state: RunState = RunState.SCHEDULED, **columns: Any
) -> TaskRun:
    at = occurrence.run_at
    policy = merge_layers({"job": occurrence.config, "task": task.config | columns.pop("policy", {})})
    row: dict[str, Any] = {
        "id": run_id(occurrence.id, task.id),
        "position": task.position,
        "function": task.function,
        "policy": policy.to_json(TASK_KEYS),
        "available_at": at,
    }
    if state in RUN_HELD:
        row |= {"claim_token": uuid4(), "claimed_by": "worker/1", "lease_until": at + LEASE}
        row |= {"heartbeat_at": at}
    if state == RunState.RUNNING:
        row |= {"started_at": at, "attempts_made": 1}
    if state in RUN_FINAL:
        row |= {"finished_at": at}
    return TaskRun(occurrence=occurrence, task=task, state=state, **row | columns)


def an_attempt(run: TaskRun, state: AttemptState = AttemptState.RUNNING, **columns: Any) -> Attempt:
    at = run.occurrence.run_at
    row: dict[str, Any] = {"number": 0, "worker": "worker/1", "started_at": at}
    if state in ATTEMPT_FINAL:
        row |= {"finished_at": at}
    row |= columns
    return Attempt(id=attempt_id(run.id, row["number"]), run=run, state=state, **row)


def occurrence_facts(row: Occurrence) -> OccurrenceFacts:
    """What an engine reads of an occurrence, which need not be saved."""
    values = {name: getattr(row, name) for name in OccurrenceFacts._fields}
    return OccurrenceFacts(**values | {"job": row.job.name})


def run_facts(row: TaskRun) -> RunFacts:
    """What an engine reads of a run, which need not be saved."""
    derived = {
        "task": row.task.name,
        "held_back": row.state == RunState.SCHEDULED and row.available_at is None,
        "parked": row.parked_at is not None,
    }
    return RunFacts(**{name: getattr(row, name) for name in set(RunFacts._fields) - set(derived)} | derived)


def a_claimed_run(row: TaskRun, *, first: bool = False, alone: bool = True) -> ClaimedRun:
    """What a claim returns of a run, which need not be saved."""
    occurrence = row.occurrence
    return ClaimedRun(
        id=row.id,
        task_id=row.task_id,
        task=row.task.name,
        function=row.function,
        position=row.position,
        reason=row.reason,
        policy=row.policy,
        attempts_made=row.attempts_made,
        snoozes=row.snoozes,
        started_at=row.started_at,
        begun=row.state == RunState.RUNNING,
        occurrence=occurrence_facts(occurrence),
        run_at=occurrence.run_at,
        deadline_at=occurrence.deadline_at,
        args=occurrence.args,
        covers=occurrence.covers,
        metadata=occurrence.metadata,
        first=first,
        alone=alone,
    )


def a_run_end(run: TaskRun, state: RunState = RunState.SUCCESS, **fields: Any) -> RunEnd:
    """The end of a run's first attempt, under the token that the run has."""
    number = max(run.attempts_made - 1, 0)
    final = state in RUN_FINAL
    values: dict[str, Any] = {
        "token": run.claim_token or uuid4(),
        "available_at": None,
        "final": final,
        "snoozed": 0,
        "reason": None,
        "error": "" if state == RunState.SUCCESS else None,
        "fingerprint": None,
        "attempt": attempt_id(run.id, number),
        "number": number,
        "started_at": run.started_at or run.occurrence.run_at,
        "recorded": run.state == RunState.RUNNING,
        "attempt_state": AttemptState.SUCCESS if state == RunState.SUCCESS else AttemptState.FAILED,
    }
    return RunEnd(run=run.id, occurrence=run.occurrence_id, state=state, **values | fields)


def saved(row: Row) -> Row:
    row.save(force_insert=True)
    if isinstance(row, Occurrence) and row.state == OccurrenceState.QUEUED:
        # Only a planned job has fired anything.
        record_raw_edits([row.job], now=row.created_at)
        Cursor.objects.filter(job=row.job, planned_until=None).update(planned_until=row.created_at)
    return row


def start_occurrence(job: Job, at: datetime, *tasks: Task, **config: Any) -> tuple[Occurrence, list[TaskRun]]:
    """A running occurrence whose runs a worker holds, saved with their attempts."""
    occurrence = saved(an_occurrence(job, at, OccurrenceState.RUNNING, config=config))
    runs = [saved(a_run(occurrence, task, RunState.RUNNING)) for task in tasks]
    for run in runs:
        saved(an_attempt(run))
    return occurrence, runs


def mark_planned(now: datetime, **columns: Any) -> None:
    """Write the versions of all jobs, as planning does, and set columns of their cursors."""
    record_raw_edits(Job.objects.all(), now=now)
    Cursor.objects.update(**columns)


def columns_of(model: type[Occurrence] | type[TaskRun] | type[Attempt], id_: UUID) -> dict[str, Any]:
    """All columns of a row, to compare before and after."""
    return dict(model.objects.filter(pk=id_).values().get())
