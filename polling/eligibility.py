"""Decide whether a stored task starts now, or until when it waits (POL-2, POL-3). Pure.

The checks in order: it is running: wait. It was interrupted: start. Its retry is due: start. The latest
matching minute is later than the last attempt: start. Otherwise wait. A task therefore starts once after
any number of missed minutes, and a new minute takes precedence over a pending retry.
"""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum

from punctual.polling.deserialization import StoredTask
from punctual.schedules.errors import CronCalculationError
from punctual.schedules.posix import PosixCron


class StartReason(StrEnum):
    DUE = "due"
    RETRY = "retry"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Start:
    """`minute` is the latest matching minute, for which the task starts."""

    reason: StartReason
    minute: datetime | None = None


@dataclass(frozen=True)
class Wait:
    """`until` is when the decision may change; None: only after an event such as the end of a run."""

    until: datetime | None


@dataclass(frozen=True)
class Holder:
    """The ledger's view of the run: held by a process until the lease ends, or lost."""

    lease_until: datetime | None = None
    lost: bool = False


def decide(
    task: StoredTask, *, zone: str | tzinfo, now: datetime, holder: Holder | None = None
) -> Start | Wait:
    if holder is not None and holder.lease_until is not None and holder.lease_until > now:
        return Wait(holder.lease_until)
    if holder is not None and (holder.lost or holder.lease_until is not None):
        return Start(StartReason.INTERRUPTED)
    retry = task.pending_retry_until
    if retry is not None and retry <= now:
        return Start(StartReason.RETRY)
    minute = pending_minute(task, zone=zone, now=now)
    if minute is not None:
        return Start(StartReason.DUE, minute)
    following = next_minute(task.rule.pattern, zone=zone, now=now)
    return Wait(min((instant for instant in (retry, following) if instant), default=None))


def pending_minute(task: StoredTask, *, zone: str | tzinfo, now: datetime) -> datetime | None:
    """The latest matching minute, unless an attempt came after it or it is older than the registration."""
    try:
        minute = task.rule.pattern.previous_at(now, zone)
    except CronCalculationError:
        return None
    last = task.last_attempt_at
    return minute if minute >= task.counts_from and (last is None or minute > last) else None


def next_minute(pattern: PosixCron, *, zone: str | tzinfo, now: datetime) -> datetime | None:
    try:
        return pattern.next_after(now, zone)
    except CronCalculationError:
        return None


def minute_of(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0)
