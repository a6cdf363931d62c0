"""A job's name → what people do with it: trigger, pause, resume, look ahead.

Triggering writes the ledger, which stands to the right of this package; `occurrences` connects its
function here when Django starts, so that users import everything from `jobs`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from jobs.clock import database_now
from jobs.errors import PunctualError, UnknownJobError
from jobs.models import Job
from jobs.scheduling import upcoming


class Trigger(Protocol):
    def __call__(self, job: Job, *, args: Mapping[str, Any], now: datetime) -> UUID: ...


_connected: list[Trigger] = []


def connect(trigger: Trigger) -> None:
    _connected[:] = [trigger]


def trigger(name: str, *, args: Mapping[str, Any] | None = None) -> UUID:
    """Run a job now, beside its schedule; returns the id of the new occurrence."""
    if not _connected:
        raise PunctualError("the `occurrences` app is not installed; nothing can be triggered")
    job = get(name)
    if job.removed:
        raise PunctualError(f"{name!r} is no longer registered; it cannot be triggered")
    return _connected[0](job, args=args or {}, now=database_now())


def pause(name: str) -> bool:
    """Hold a job: its instants are recorded as skipped. False when it was paused already."""
    rows = Job.objects.filter(pk=get(name).pk, paused_at=None)
    return rows.update(paused_at=database_now()) == 1


def resume(name: str) -> bool:
    """Let a paused job run again from its next instant on. False when it was not paused."""
    rows = Job.objects.filter(pk=get(name).pk, paused_at__isnull=False)
    return rows.update(paused_at=None) == 1


def next_runs(name: str, count: int = 5) -> list[datetime]:
    """The next instants the schedule names, in UTC."""
    return upcoming(get(name), database_now(), count)


def get(name: str) -> Job:
    try:
        return Job.objects.get(name=name)
    except Job.DoesNotExist:
        raise UnknownJobError(name) from None
