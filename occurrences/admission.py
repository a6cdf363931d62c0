"""Due occurrences, what is active, and free slots → fire, queue, skip or miss each of them. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

from jobs.config import Overlap
from occurrences.due import Due
from occurrences.models import Cause

NO_TASKS = "no tasks"
BROKEN = "unusable configuration"
MAX_REACHED = "max"
SUPERSEDED = "superseded"
REQUESTED = (Cause.REPLAY, Cause.BACKFILL)
KEEPS_LATEST = frozenset({Overlap.QUEUE_LATEST, Overlap.REPLACE})


@dataclass(frozen=True)
class Facts:
    """What the ledger holds at this moment, read under the locks that keep it so."""

    now: datetime
    with_tasks: Set[str]
    busy: Set[str] = frozenset()  # jobs with an exclusive occurrence active or, for newcomers, in line
    broken: Set[str] = frozenset()
    starts_left: Mapping[str, int] = field(default_factory=dict)  # only jobs with a `max`
    free: Mapping[str, int] = field(default_factory=dict)  # only pools that could run out


@dataclass(frozen=True)
class Admission:
    fire: tuple[Due, ...] = ()
    queue: Mapping[str, list[Due]] = field(default_factory=dict)
    skip: Mapping[str, list[str]] = field(default_factory=dict)
    miss: tuple[str, ...] = ()


def admit(due: Iterable[Due], facts: Facts) -> Admission:
    """Slots go by priority, then by chosen time; within a job the earlier one comes first."""
    taken = set(facts.busy)
    used: Counter[str] = Counter()
    started: Counter[str] = Counter()
    fire: list[Due] = []
    queue: dict[str, list[Due]] = {}
    skip: dict[str, list[str]] = {}
    miss: list[str] = []
    for row in sorted(due, key=in_line):
        if row.expires_at is not None and row.expires_at < facts.now:
            miss.append(row.id)
        elif reason := _refusal(row, facts, started):
            skip.setdefault(reason, []).append(row.id)
        elif row.exclusive and row.job_id in taken:
            _wait_or_skip(row, queue, skip)
        elif row.pool in facts.free and used[row.pool] >= facts.free[row.pool]:
            queue.setdefault("pool", []).append(row)
            # It holds its job's place: a later one of the same job must not overtake it.
            taken |= {row.job_id} if row.exclusive else set()
        else:
            fire.append(row)
            used[row.pool] += 1
            started[row.job_id] += _counts(row)
            taken |= {row.job_id} if row.exclusive else set()
    return Admission(tuple(fire), queue, skip, tuple(miss))


def in_line(row: Due) -> tuple[int, datetime, str]:
    return (-row.priority, row.run_at, row.id)


def _wait_or_skip(row: Due, queue: dict[str, list[Due]], skip: dict[str, list[str]]) -> None:
    if row.cause in REQUESTED:
        # Somebody asked for just this one: it neither gives way to others nor takes their place.
        queue.setdefault("requested", []).append(row)
        return
    overlap = Overlap(row.overlap)
    # What a recovery strategy decided to run shall run: one after the other, not skipped by its own kind.
    if overlap is Overlap.SKIP and row.cause != Cause.RECOVERY:
        skip.setdefault("overlap", []).append(row.id)
        return
    waiting = queue.setdefault("overlap", [])
    if overlap in KEEPS_LATEST:
        older = [other for other in waiting if other.job_id == row.job_id]
        skip.setdefault(SUPERSEDED, []).extend(other.id for other in older)
        waiting[:] = [other for other in waiting if other.job_id != row.job_id]
    waiting.append(row)


def _counts(row: Due) -> int:
    """`max` bounds what the schedule starts; a manual run or a replay is beside it."""
    return int(row.cause in (Cause.SCHEDULE, Cause.RECOVERY))


def _refusal(row: Due, facts: Facts, started: Mapping[str, int]) -> str:
    """Why it must not run at all; what an operator asked for goes ahead even when the schedule is held."""
    if row.job_id in facts.broken:
        return BROKEN
    if row.job_id not in facts.with_tasks:
        return NO_TASKS
    if row.cause == Cause.MANUAL:
        return ""
    if row.cause in REQUESTED:
        return "removed" if row.removed_at is not None else ""
    left = facts.starts_left.get(row.job_id)
    if left is not None and _counts(row) and started[row.job_id] >= left:
        return MAX_REACHED
    return row.held
