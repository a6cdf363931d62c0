"""Write the ledger rows of polling runs: one occurrence per started minute, one attempt per try.

Every function runs inside the caller's transaction. An occurrence is created, fired, started and claimed
in the same transaction, so that beats and workers never see it as pending or scheduled.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from punctual.jobs.config.cascade import job_config, task_config
from punctual.jobs.config.keys import TASK_KEYS
from punctual.jobs.ids import attempt_id, occurrence_id, run_id
from punctual.jobs.models import Job, Task
from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import Closing
from punctual.occurrences.models import Attempt, Cause, Occurrence, TaskRun
from punctual.occurrences.planning.new_rows import new_occurrence
from punctual.occurrences.states import AttemptState, OccurrenceState


def open_run(job: Job, *, minute: datetime | None, now: datetime, repeats: UUID | None = None) -> UUID:
    """Create an occurrence for the minute with its run; `repeats` is the lost occurrence it replaces."""
    task = Task.objects.current().get(job=job)
    # If the minute already has an occurrence, it was started under an earlier registration.
    instant = now if minute is None or _has_occurrence(job, minute) else minute
    cause = Cause.SCHEDULE if repeats is None else Cause.RECOVERY
    occurrence = new_occurrence(
        job, job_config(job), scheduled_for=instant, run_at=instant, now=now, cause=cause, parent_id=repeats
    )
    occurrence.save(force_insert=True)
    run = TaskRun(
        id=run_id(occurrence.id, task.id),
        occurrence=occurrence,
        task=task,
        function=task.function,
        position=task.position,
        policy=task_config(job, task).to_json(TASK_KEYS),
        available_at=now,
    )
    run.save(force_insert=True)
    transitions.fire([occurrence.id], now=now)
    transitions.start([occurrence.id], now=now)
    return run.id


def _has_occurrence(job: Job, minute: datetime) -> bool:
    return Occurrence.objects.filter(pk=occurrence_id(job.id, minute)).exists()


def open_attempt(run: UUID, *, worker: str, now: datetime) -> tuple[UUID, int]:
    """Create the attempt of a claimed run; return its occurrence and number."""
    occurrence, count = TaskRun.objects.values_list("occurrence_id", "attempts_made").get(pk=run)
    Attempt.objects.create(
        id=attempt_id(run, count - 1), run_id=run, number=count - 1, worker=worker, started_at=now
    )
    return occurrence, count - 1


def lose_attempt(run: TaskRun, *, now: datetime) -> int:
    """End the attempt of a process whose lease expired and free its run; 0 if the run was not held."""
    text = (
        f"{run.claimed_by} stopped renewing its lease; last heartbeat {run.heartbeat_at}, "
        f"lease until {run.lease_until}"
    )
    if not transitions.expire([run.id], now=now):
        return 0
    open_attempts = Attempt.objects.filter(run=run.id, state=AttemptState.RUNNING)
    open_attempts.update(lease_until=run.lease_until, heartbeat_at=run.heartbeat_at)
    error = {"error_type": "ProcessLost", "error": text, "traceback": ""}
    transitions.end_attempts([run.id], AttemptState.LOST, now=now, errors={run.id: error})
    return 1


def abandon_retry(run: TaskRun, *, reason: str, now: datetime) -> None:
    """Cancel a run that waits for a retry, and fail its occurrence."""
    # Lock the occurrence before its runs, in the same order as every writer: an operator may be ending it.
    Occurrence.objects.select_for_update(no_key=True).get(pk=run.occurrence_id)
    transitions.cancel([run.id], reason=reason, now=now)
    close_occurrence(run, OccurrenceState.FAILED, now=now, reason=reason)


def close_occurrence(run: TaskRun, outcome: OccurrenceState, *, now: datetime, reason: str = "") -> None:
    report = summary(run, outcome, reason=reason, now=now)
    owner = run.occurrence_id
    closing = Closing(owner, outcome, reason="", finalized=True, report=json.dumps(report))
    transitions.close([closing], now=now)


def summary(run: TaskRun, outcome: OccurrenceState, *, reason: str, now: datetime) -> Mapping[str, Any]:
    """The report of the occurrence, with the same keys as those of other occurrences."""
    occurrence = run.occurrence
    return {
        "occurrence": occurrence.display_id,
        "job": occurrence.job.name,
        "job_version": occurrence.job_version,
        "cause": str(occurrence.cause),
        "scheduled_for": occurrence.scheduled_for.isoformat(),
        "outcome": str(outcome),
        "finished_at": now.isoformat(),
        "tasks": [
            {"task": run.task.name, "attempts_made": run.attempts_made, "error": run.error, "reason": reason}
        ],
    }
