"""Read the current state of registered tasks in one query."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from uuid import UUID

from punctual.jobs.models import Job
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import RUN_HELD, RunState
from punctual.polling.deserialization import StoredTask, deserialize
from punctual.polling.eligibility import Holder
from punctual.polling.errors import TaskInvalidStructureError, TaskTryDeserializeError
from punctual.polling.models import Roster, TaskState


@dataclass(frozen=True)
class TaskSnapshot:
    """A task as read from the database; `revision` guards the decision made from it."""

    job: Job
    run: TaskRun | None
    revision: int
    task: StoredTask
    holder: Holder | None


@dataclass(frozen=True)
class UnreadableTask:
    name: str
    error: TaskTryDeserializeError


def read_roster() -> str:
    """The digest of the registrations in force."""
    return Roster.objects.values_list("digest", flat=True).first() or ""


def read_tasks(jobs: Collection[UUID]) -> list[TaskSnapshot | UnreadableTask]:
    """Read the tasks that may start: registered, enabled, not paused."""
    rows = TaskState.objects.filter(
        job__in=jobs, job__removed_at=None, job__enabled=True, job__paused_at=None
    ).select_related("job", "run")
    return list(map(_snapshot, rows.order_by("job_id")))


def _snapshot(row: TaskState) -> TaskSnapshot | UnreadableTask:
    try:
        task = deserialize(stored_fields(row.job, row))
    except TaskTryDeserializeError as error:
        return UnreadableTask(row.job.name, error)
    if row.run is None or row.run.state != RunState.FAILED:
        # Only a run in state `failed` is retried; a run that an operator canceled is not.
        task = replace(task, pending_retry_until=None)
    return TaskSnapshot(row.job, row.run, row.revision, task, find_holder(row.run))


def stored_fields(job: Job, row: TaskState | None) -> object:
    """Combine the rows of job and state into the fields of one stored task."""
    if row is None:
        raise TaskInvalidStructureError(f"Task {job.name!r} has no stored state", job.name)
    return {
        "name": job.name,
        "schedule": job.schedule,
        "retryDelay": row.retry_delay,
        "schedulerIdentifier": row.scheduler_id,
        "countsFrom": row.counts_from,
        "lastAttemptAt": row.last_attempt_at,
        "lastSuccessAt": row.last_success_at,
        "pendingRetryUntil": row.pending_retry_until,
    }


def find_holder(run: TaskRun | None) -> Holder | None:
    if run is None:
        return None
    if run.state in RUN_HELD:
        return Holder(lease_until=run.lease_until)
    # A beat's reaper has already recorded the loss and parked the run.
    return Holder(lost=True) if run.state == RunState.DLQ else None
