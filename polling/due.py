"""A stored task and now → start it, or wait until when (POL-2, POL-3). Pure.

In this order: somebody runs it → nothing; it was interrupted → start; its retry is due → start; the
latest matching minute is later than the last attempt → start; else nothing. So one start follows any
number of missed minutes, and a new minute goes ahead of a retry that still waits.
"""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum

from polling.persisted import Persisted
from schedules.errors import CronCalculationError
from schedules.posix import PosixCron


class Why(StrEnum):
    DUE = "due"
    RETRY = "retry"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Start:
    """`minute` is the one it is started for, the latest that matches if there is any."""

    why: Why
    minute: datetime | None = None


@dataclass(frozen=True)
class Wait:
    """`until` is when the answer may change; None: not before something else happens."""

    until: datetime | None


@dataclass(frozen=True)
class Holder:
    """What the ledger says about the run: somebody's until the lease ends, or lost before its end."""

    lease_until: datetime | None = None
    lost: bool = False


def decide(
    task: Persisted, *, zone: str | tzinfo, now: datetime, holder: Holder | None = None
) -> Start | Wait:
    if holder is not None and holder.lease_until is not None and holder.lease_until > now:
        return Wait(holder.lease_until)
    if holder is not None and (holder.lost or holder.lease_until is not None):
        return Start(Why.INTERRUPTED)
    retry = task.pending_retry_until
    if retry is not None and retry <= now:
        return Start(Why.RETRY)
    minute = pending_minute(task, zone=zone, now=now)
    if minute is not None:
        return Start(Why.DUE, minute)
    following = next_minute(task.rule.pattern, zone=zone, now=now)
    return Wait(min((instant for instant in (retry, following) if instant), default=None))


def pending_minute(task: Persisted, *, zone: str | tzinfo, now: datetime) -> datetime | None:
    """The latest matching minute, unless an attempt has answered it or it is older than the task."""
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
