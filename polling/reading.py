"""Rows of registered tasks → what each of them looks like at this moment, in one query."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from uuid import UUID

from jobs.models import Job
from occurrences.models import TaskRun
from occurrences.states import RUN_HELD, RunState
from polling.due import Holder
from polling.errors import TaskInvalidStructureError, TaskTryDeserializeError
from polling.models import TaskState
from polling.persisted import Persisted, deserialized


@dataclass(frozen=True)
class Seen:
    """A task as it was read; `revision` guards whatever is decided from it."""

    job: Job
    run: TaskRun | None
    revision: int
    task: Persisted
    holder: Holder | None


@dataclass(frozen=True)
class Unreadable:
    name: str
    error: TaskTryDeserializeError


def read(jobs: Collection[UUID]) -> list[Seen | Unreadable]:
    """Those that may be started: registered, enabled, not paused."""
    rows = TaskState.objects.filter(
        job__in=jobs, job__removed_at=None, job__enabled=True, job__paused_at=None
    ).select_related("job", "run")
    return list(map(_seen, rows.order_by("job_id")))


def _seen(row: TaskState) -> Seen | Unreadable:
    try:
        task = deserialized(record(row.job, row))
    except TaskTryDeserializeError as error:
        return Unreadable(row.job.name, error)
    if row.run is None or row.run.state != RunState.FAILED:
        # Only a run that rests in `failed` is retried; one that an operator canceled is not.
        task = replace(task, pending_retry_until=None)
    return Seen(row.job, row.run, row.revision, task, holder_of(row.run))


def record(job: Job, row: TaskState | None) -> object:
    """The two rows as the fields of one stored task."""
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


def holder_of(run: TaskRun | None) -> Holder | None:
    if run is None:
        return None
    if run.state in RUN_HELD:
        return Holder(lease_until=run.lease_until)
    # A beat's reaper was first: it recorded the loss and parked the run.
    return Holder(lost=True) if run.state == RunState.DLQ else None
