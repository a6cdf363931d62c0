"""What `jobs` calls in the ledger, as a protocol that `occurrences` implements.

Imports point left, yet triggering a job writes an occurrence. So `punctual.apps` connects the
implementation when Django starts.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from punctual.jobs.clock import Clock
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import PunctualError
from punctual.jobs.models import Job
from punctual.jobs.store.update_policy import PendingDiff, UpdatePolicy


class Ledger(Protocol):
    """Implemented by `punctual.occurrences.job_port`."""

    def trigger(
        self,
        job: Job,
        *,
        args: Mapping[str, Any],
        now: datetime,
        overrides: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> UUID: ...

    def skip_next(self, job: Job, *, now: datetime) -> UUID | None: ...

    def reschedule(self, occurrence_id: UUID, *, run_at: datetime, now: datetime) -> None: ...

    def plan_jobs(self, jobs: Collection[UUID], *, now: datetime) -> None: ...

    def replan(
        self, jobs: Collection[UUID], *, policy: UpdatePolicy | None, now: datetime
    ) -> Mapping[UUID, datetime]: ...

    def preview(
        self, definitions: Sequence[Definition], *, policy: UpdatePolicy | None, now: datetime
    ) -> list[PendingDiff]: ...

    def pause(
        self, job_id: UUID, *, clock: Clock, reason: str, until: datetime | None, backlog: str
    ) -> bool: ...

    def resume(self, job_id: UUID, *, backlog: str, clock: Clock) -> bool: ...

    def is_running(self, job: Job) -> bool: ...

    def next_run(self, job: Job) -> datetime | None: ...


_connected: list[Ledger] = []


def connect(ledger: Ledger) -> None:
    """Set the implementation, once at start-up."""
    _connected[:] = [ledger]


def connected_ledger() -> Ledger:
    """Return the implementation."""
    if not _connected:
        raise PunctualError("`punctual` is not in INSTALLED_APPS: there is no ledger")
    return _connected[0]
