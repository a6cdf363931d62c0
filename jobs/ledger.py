"""The place where `occurrences`, which stands to the right, connects what jobs need of the ledger.

Imports point left, and yet triggering a job writes an occurrence. So the ledger brings its functions
here when Django starts, and users find everything under `jobs`.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from jobs.definition import Definition
from jobs.errors import PunctualError
from jobs.models import Job
from jobs.policy import PendingDiff, UpdatePolicy


class Ledger(Protocol):
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
        self, jobs: Collection[UUID], *, policy: UpdatePolicy, now: datetime
    ) -> Mapping[UUID, datetime]: ...

    def preview(
        self, definitions: Sequence[Definition], *, policy: UpdatePolicy, now: datetime
    ) -> list[PendingDiff]: ...

    def run_skipped(self, job: Job, *, choice: str, since: datetime, now: datetime) -> int: ...

    def is_running(self, job: Job) -> bool: ...

    def next_run(self, job: Job) -> datetime | None: ...


_connected: list[Ledger] = []


def connect(ledger: Ledger) -> None:
    _connected[:] = [ledger]


def connected() -> Ledger:
    if not _connected:
        raise PunctualError("the `occurrences` app is not installed; there is no ledger")
    return _connected[0]
