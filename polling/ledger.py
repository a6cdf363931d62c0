"""A start or an end → rows of the ledger: one occurrence per started minute, one attempt per try.

All of it happens inside the caller's transaction, and an occurrence is opened, fired, started and
claimed in one go: beats and workers, which look for pending and scheduled rows, never see one.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.config import TASK_KEYS
from jobs.models import Job, Task
from jobs.scheduling import job_config, task_config
from occurrences import transitions
from occurrences.ids import attempt_id, occurrence_id, run_id
from occurrences.materialize import new_occurrence
from occurrences.models import Attempt, Cause, Occurrence, TaskRun
from occurrences.states import AttemptState, OccurrenceState

SUPERSEDED = "superseded by a later minute"


def open_run(job: Job, *, minute: datetime | None, now: datetime, repeats: UUID | None = None) -> UUID:
    """A new occurrence for the minute, with its one run; `repeats` is the lost one it stands in for."""
    task = Task.objects.current().get(job=job)
    # A minute that has its occurrence already was started under an earlier registration.
    instant = now if minute is None or _taken(job, minute) else minute
    cause = Cause.SCHEDULE if repeats is None else Cause.RECOVERY
    occurrence = new_occurrence(
        job, job_config(job), scheduled_for=instant, run_at=instant, now=now, cause=cause, parent_id=repeats
    )
    occurrence.save(force_insert=True)
    run = TaskRun(
        id=run_id(occurrence.id, task.id),
        occurrence=occurrence,
        task=task,
        position=task.position,
        policy=task_config(job, task).dumped(TASK_KEYS),
        available_at=now,
    )
    run.save(force_insert=True)
    transitions.fire([occurrence.id], now=now)
    transitions.start([occurrence.id], now=now)
    return run.id


def _taken(job: Job, minute: datetime) -> bool:
    return Occurrence.objects.filter(pk=occurrence_id(job.id, minute)).exists()


def open_attempt(run: UUID, *, worker: str, now: datetime) -> tuple[UUID, int]:
    """The attempt of a run just claimed: its occurrence and its number."""
    occurrence, made = TaskRun.objects.values_list("occurrence_id", "attempts_made").get(pk=run)
    Attempt.objects.create(
        id=attempt_id(run, made - 1), run_id=run, number=made - 1, worker=worker, started_at=now
    )
    return occurrence, made - 1


def lose_attempt(run: TaskRun, *, now: datetime) -> int:
    """The try of a process that fell silent, with what is known of its lease; its run is free again."""
    text = (
        f"{run.claimed_by} fell silent; last sign of life {run.heartbeat_at}, lease until {run.lease_until}"
    )
    if not transitions.expire([run.id], now=now):
        return 0
    open_tries = Attempt.objects.filter(run=run.id, state=AttemptState.RUNNING)
    open_tries.update(lease_until=run.lease_until, heartbeat_at=run.heartbeat_at)
    error = {"error_type": "ProcessLost", "error": text, "traceback": ""}
    transitions.end_attempts([run.id], AttemptState.LOST, now=now, errors={run.id: error})
    return 1


def give_up(run: TaskRun, *, reason: str, now: datetime) -> None:
    """A run that waits for a retry which will not come: its occurrence has failed."""
    # The occurrence before its runs, as everywhere: an operator may be ending it at this moment.
    Occurrence.objects.select_for_update(no_key=True).get(pk=run.occurrence_id)
    transitions.cancel([run.id], reason=reason, now=now)
    close(run, OccurrenceState.FAILED, now=now, reason=reason)


def close(run: TaskRun, outcome: OccurrenceState, *, now: datetime, reason: str = "") -> None:
    report = summary(run, outcome, reason=reason, now=now)
    owner = run.occurrence_id
    transitions.finish({owner: outcome}, reports={owner: report}, finalized={owner}, now=now)


def summary(run: TaskRun, outcome: OccurrenceState, *, reason: str, now: datetime) -> Mapping[str, Any]:
    """What the occurrence's page shows; the keys are those of every other occurrence's report."""
    occurrence = run.occurrence
    return {
        "occurrence": occurrence.shown_id,
        "job": occurrence.job.name,
        "job_version": occurrence.job_version,
        "cause": str(occurrence.cause),
        "scheduled_for": occurrence.scheduled_for.isoformat(),
        "outcome": str(outcome),
        "finished_at": now.isoformat(),
        "tasks": [
            {"task": run.task.name, "attempts": run.attempts_made, "error": run.error, "reason": reason}
        ],
    }
