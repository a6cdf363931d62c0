"""Decide which due occurrences fire, wait, are skipped or are missed. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

from punctual.jobs.config.policy import is_suspended
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.admission.capacity import COUNTED_CAUSES, take_slot
from punctual.occurrences.admission.overlap import REQUESTED_CAUSES, Queue, Skip, queue_or_skip
from punctual.occurrences.models import Cause
from punctual.occurrences.states import Reason


@dataclass(frozen=True)
class Facts:
    """What the ledger holds at this moment, read under the locks that keep it so."""

    now: datetime
    with_tasks: Set[str]  # occurrences whose version has tasks
    # Jobs with an active exclusive occurrence or, for newcomers, a waiting one, and its cause.
    busy: Mapping[str, str] = field(default_factory=dict)
    broken: Set[str] = frozenset()  # occurrences with an unusable configuration
    starts_left: Mapping[str, int] = field(default_factory=dict)  # only jobs with a `max`
    free: Mapping[str, int] = field(default_factory=dict)  # free slots by pool, and of the platform


@dataclass(frozen=True)
class Admission:
    fire: tuple[Due, ...] = ()
    queue: Mapping[Reason, list[Due]] = field(default_factory=dict)
    skip: Mapping[Reason, list[str]] = field(default_factory=dict)
    miss: tuple[str, ...] = ()


def admit(due: Iterable[Due], facts: Facts) -> Admission:
    """Give slots by priority, then by start time; within a job the earlier occurrence comes first."""
    busy = dict(facts.busy)
    free = dict(facts.free)
    starts: Counter[str] = Counter()
    fire: list[Due] = []
    queue: Queue = {}
    skip: Skip = {}
    miss: list[str] = []
    for row in sorted(due, key=queue_order):
        if reason := _refusal(row, facts, starts):
            skip.setdefault(reason, []).append(row.id)
        elif row.expires_at is not None and row.expires_at < facts.now:
            miss.append(row.id)
        elif row.exclusive and row.job_id in busy:
            queue_or_skip(row, busy[row.job_id], queue, skip)
        elif full := take_slot(free, row.pool):
            queue.setdefault(full, []).append(row)
            # A later occurrence of the same job must not overtake it.
            busy |= {row.job_id: row.cause} if row.exclusive else {}
        else:
            fire.append(row)
            starts[row.job_id] += row.cause in COUNTED_CAUSES
            busy |= {row.job_id: row.cause} if row.exclusive else {}
    return Admission(tuple(fire), queue, skip, tuple(miss))


def queue_order(row: Due) -> tuple[int, datetime, str]:
    """Sort key: higher priority first, then the earlier start time."""
    return (-row.priority, row.run_at, row.id)


def _refusal(row: Due, facts: Facts, starts: Mapping[str, int]) -> Reason | None:  # noqa: PLR0911 - a table
    """Why the occurrence must not run at all. Manual runs start even while the job is paused or disabled."""
    if row.id in facts.broken:
        return Reason.UNUSABLE_CONFIG
    if row.id not in facts.with_tasks:
        return Reason.NO_TASKS
    if row.cause == Cause.MANUAL:
        return None
    if row.cause in REQUESTED_CAUSES:
        return Reason.REMOVED if row.removed_at is not None else None
    left = facts.starts_left.get(row.job_id)
    if left is not None and row.cause in COUNTED_CAUSES and starts[row.job_id] >= left:
        return Reason.MAX_STARTS
    if row.removed_at is not None:
        return Reason.REMOVED
    if not row.enabled:
        return Reason.STOPPED
    suspended = "suspend" in row.schedule and is_suspended(row.schedule)
    held = row.paused_at is not None and _is_held(row, facts.now)
    return Reason.PAUSED if held or suspended else None


def _is_held(row: Due, now: datetime) -> bool:
    """Whether the pause of its job covers the occurrence."""
    if row.paused_at is None:
        return False
    if row.paused_until is None or now < row.paused_until:
        return True
    # The pause is over, and a beat is about to resume the job: what fell into it is still skipped.
    return row.paused_at < row.run_at < row.paused_until
