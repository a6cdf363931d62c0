"""Plan due cursors: insert the occurrences they owe and move them on (OCC-2).

Every beat may plan the same job at the same time. Ids are computed on the client and rows are inserted in the
order of their ids with conflicts ignored: the primary key decides the race, and the loser inserts nothing.
Unsorted inserts of two beats would deadlock on PostgreSQL. A batch takes a constant number of statements.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from punctual.jobs.config.cascade import Config, job_config, stored_config
from punctual.jobs.config.policy import SUSPENDED
from punctual.jobs.events import Event, emit
from punctual.jobs.job_schedule import PREFIXED, schedule_of, user_code
from punctual.jobs.models import Job
from punctual.jobs.store.raw_edits import record_raw_edits
from punctual.occurrences import transitions
from punctual.occurrences.admission.capacity import starts_left
from punctual.occurrences.engines.contract import Row
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cause, Cursor, Occurrence
from punctual.occurrences.planning.cursors import PlanCursor, SeenJob, cursor_of, lock_cursors
from punctual.occurrences.planning.downtime import (
    FAR_BEHIND,
    MAX_INSTANTS_PER_BATCH,
    NEXT_PORTION_AFTER,
    LateInstants,
    read_late_instants,
)
from punctual.occurrences.planning.fixed_delay import PREFIX, is_fixed_delay, last_ends, plan_after_end
from punctual.occurrences.planning.instants import LOOKAHEAD, MAX_INSTANTS_PER_PLAN, Plan, plan, reach_before
from punctual.occurrences.planning.moved_starts import Starts, keep_starts, moved_rows, read_moved
from punctual.occurrences.planning.new_rows import is_plannable, planned_row, range_row
from punctual.occurrences.states import OccurrenceState, Reason
from punctual.schedules import FixedDelay, Schedule

BATCH = 1000
Ends = Mapping[UUID, datetime | None]
PLAIN: AbstractContextManager[None] = nullcontext()


@dataclass(frozen=True)
class Planned:
    """`absorbed` are late instants that were recorded as ranges, without a row each; `more`: some of what was
    planned is due already, or further cursors are due. Jobs in `pauses_over` must be resumed before they can
    be planned."""

    jobs: int = 0
    instants: int = 0
    absorbed: int = 0
    more: bool = False
    pauses_over: tuple[UUID, ...] = ()


def plan_due(
    now: datetime,
    *,
    job: Job | None = None,
    limit: int = BATCH,
    seen: Mapping[str, SeenJob] = MappingProxyType({}),
) -> Planned:
    """Plan the due cursors of all jobs, or of one; jobs that firing has `seen` are not read again."""
    due = Cursor.objects.due(now).filter(job=job) if job else Cursor.objects.due(now)
    # A read first: on SQLite an empty tick must not take the write lock.
    if not due.exists():
        return Planned()
    with transaction.atomic():
        # One more than needed tells whether further cursors are due, without another query.
        cursors = lock_cursors(due, limit + 1, seen)
        planned = _plan(cursors[:limit], now)
    return replace(planned, more=True) if len(cursors) > limit else planned


def plan_jobs(jobs: Collection[UUID], *, now: datetime) -> None:
    """Plan these jobs up to now before their definition changes: what the old one owed stays owed."""
    due = Cursor.objects.due(now).filter(job__any=jobs).select_related("job").order_by("job_id")
    while cursors := list(map(cursor_of, due.select_for_update(of=("self",), no_key=True))):
        _plan(cursors, now, closing=True)
    _skip_suspended(jobs, now)


def _skip_suspended(jobs: Collection[UUID], now: datetime) -> None:
    """Record what a suspended schedule has held up to now: the new definition may not be suspended."""
    pending = Occurrence.objects.filter(job__any=jobs, state=OccurrenceState.PENDING, run_at__lte=now)
    held = pending.filter(job__schedule__regex=SUSPENDED, cause__in=(Cause.SCHEDULE, Cause.RECOVERY))
    if ids := list(held.values_list("id", flat=True)):
        transitions.skip(ids, reason=Reason.PAUSED, now=now)


def _plan(cursors: list[PlanCursor], now: datetime, *, closing: bool = False) -> Planned:
    if edited := [cursor for cursor in cursors if cursor.planned_until is None]:
        busy = record_raw_edits([cursor.job for cursor in edited], now=now)
        busy |= set() if closing else _jobs_with_held_rows(edited)
        cursors = [cursor for cursor in cursors if cursor.job_id not in busy]  # still due: the next tick
        edited = [cursor for cursor in edited if cursor.job_id not in busy]
    moved = _delete_outdated(edited) if edited else {}
    behind = [
        cursor for cursor in cursors if (cursor.planned_until or cursor.settled_until) < now - FAR_BEHIND
    ]
    late = read_late_instants(behind, now, closing=closing) if behind else LateInstants(now, closing)
    # A fixed delay contains its prefix, so the many other schedules need no parsing.
    delayed = [cursor for cursor in cursors if PREFIX in cursor.job.schedule.lower()]
    ends = last_ends(delayed) if delayed else {}
    rows = [row for cursor in cursors for row in _advance(cursor, now, late, ends, moved)]
    paused = [cursor for cursor in cursors if cursor.job.paused_until is not None]
    for cursor in paused:
        plan_at_end_of_pause(cursor, now)
    with engine().pipeline():
        engine().insert_missing(Occurrence, rows)
        write_cursors(cursors)
    if late.dispositions:
        _end_older(late)
    more = any(row["run_at"] <= now for row in rows) or any(
        cursor.plan_at is not None and cursor.plan_at <= now for cursor in cursors
    )
    over = tuple(cursor.job_id for cursor in paused if is_pause_over(cursor.job, now))
    return Planned(len(cursors), len(rows), late.count, more=more or bool(over), pauses_over=over)


def is_pause_over(job: Job, now: datetime) -> bool:
    """Whether the job is paused until an instant that has come."""
    return job.paused and job.paused_until is not None and job.paused_until <= now


def plan_at_end_of_pause(cursor: PlanCursor | Cursor, now: datetime) -> None:
    """Let the beat that plans the job then resume it; if it cannot, it tries again after a second."""
    until = cursor.job.paused_until
    if cursor.job.paused and until is not None:
        until = max(until, now + NEXT_PORTION_AFTER)
        cursor.plan_at = min(cursor.plan_at or until, until)


def write_cursors(cursors: Sequence[PlanCursor | Cursor]) -> None:
    """Write the columns that planning changes; the caller holds the rows."""
    engine().update_rows(Cursor, cursors, "settled_until", "planned_until", "plan_at", "problem")


# What the definition before an edit had planned after the moment of the edit.
OUTDATED = Q(state=OccurrenceState.PENDING, cause=Cause.SCHEDULE, scheduled_for__gt=F("job__updated_at"))
# After an edit of a task, planning continues from here.
OUTDATED &= Q(scheduled_for__gt=F("job__cursor__settled_until"))


def _jobs_with_held_rows(edited: Collection[PlanCursor]) -> set[UUID]:
    """Edited jobs of which another session holds an outdated row: a beat must not wait for it.

    The other rows are locked until the end of the transaction.
    """
    rows = Occurrence.objects.filter(OUTDATED, job__any=[cursor.job_id for cursor in edited]).order_by("id")
    locking = rows.select_for_update(skip_locked=True, no_key=True)
    locked = set(locking.values_list("id", flat=True))
    return {job for id_, job in rows.values_list("id", "job_id") if id_ not in locked}


def _delete_outdated(edited: Collection[PlanCursor]) -> Mapping[UUID, Starts]:
    """Delete outdated rows of edited jobs.

    Return the start times that operators have chosen. A fixed delay counts from the end of the moved
    occurrence, so that one stays.
    """
    moved = moved_rows([cursor.job_id for cursor in edited]).filter(OUTDATED)
    starts = read_moved(moved)
    waiting = [
        cursor.job_id
        for cursor in edited
        if cursor.job_id in starts and is_plannable(cursor.job) and is_fixed_delay(cursor.job.schedule)
    ]
    rows = Occurrence.objects.filter(OUTDATED, job__any=[cursor.job_id for cursor in edited])
    rows.exclude(late_at=None, job__in=waiting).delete()
    return {job: instants for job, instants in starts.items() if job not in waiting}


def _end_older(late: LateInstants) -> None:
    """End late rows older than the ranges: they do not run either, because enough newer instants follow."""
    for disposition in sorted(set(late.dispositions.values()), key=attrgetter("reason")):
        if disposition.reason is Reason.COMPRESSING:
            continue  # the compressed run covers them
        jobs = [job for job, other in late.dispositions.items() if other == disposition]
        older = Occurrence.objects.due(late.now).late(late.now).filter(job__any=jobs)
        # Rows that another session holds are left: catching up decides about them.
        locked = older.order_by("id").select_for_update(skip_locked=True, no_key=True)
        ids = list(locked.values_list("id", flat=True))
        end = transitions.skip if disposition.state == OccurrenceState.SKIPPED else transitions.miss
        end(ids, reason=disposition.reason, now=late.now)


def _advance(
    cursor: PlanCursor, now: datetime, late: LateInstants, ends: Ends, moved: Mapping[UUID, Starts]
) -> list[Row]:
    """Move the cursor on, in memory, and return the rows it owes."""
    if late.count >= MAX_INSTANTS_PER_BATCH and not late.closing:
        return []  # still due: the next batch continues with it
    job = cursor.job
    cursor.problem, cursor.plan_at = "", None
    if not is_plannable(job):
        return []
    if job.paused_until is not None and not late.closing and is_pause_over(job, now):
        return []
    start = cursor.planned_until or max(cursor.settled_until, job.updated_at)
    try:
        with user_code(job) if PREFIXED in job.schedule else PLAIN:
            # A krontab's policy is a layer of its own; any other text needs no look at the schedule.
            config = job_config(job) if "@policy" in job.schedule else stored_config(cursor.config)
            schedule = schedule_of(job, config)
            if starts_left(schedule, cursor.starts) == 0:
                return []
            ahead = _plan_ahead(schedule, config, start=start, ended=ends.get(job.id, start), now=now)
            rows: list[Row] = []
            if len(ahead.instants) == MAX_INSTANTS_PER_PLAN and late.has_only_late(ahead, schedule, config):
                stretches = late.collect(job, schedule, config, start)
                if stretches.reached is None:
                    ahead = late.next_portion(job, ahead, start)
                else:
                    how = vars(late.dispositions[job.id])
                    rows = [range_row(job, config, item, now=now, **how) for item in stretches.items]
                    ahead = Plan((), stretches.reached, stretches.reached)
            rows += [planned_row(job, schedule, config, instant, now) for instant in ahead.instants]
            if job.id in moved:
                rows = keep_starts(job, schedule, rows, moved[job.id], now)
    except Exception as error:  # noqa: BLE001 - rows are edited by any means, and a kind may be user code
        # One broken job must not stop the others.
        cursor.problem = f"{type(error).__name__}: {error}"
        emit(Event.JOB_UNPLANNABLE, job=job.name, problem=cursor.problem)
        return []
    if ahead.plan_at is None and cursor.planned_until is None and not rows:
        emit(Event.JOB_OVER, job=job.name, schedule=job.schedule)  # new or edited, and it never fires
    cursor.planned_until, cursor.plan_at = ahead.planned_until, ahead.plan_at
    cursor.settled_until = max(cursor.settled_until, min(now, ahead.planned_until))
    return rows


def _plan_ahead(
    schedule: Schedule, config: Config, *, start: datetime, ended: datetime | None, now: datetime
) -> Plan:
    if isinstance(schedule, FixedDelay):
        return plan_after_end(schedule, start=start, ended=ended, now=now)
    return plan(schedule, start=start, now=now, lookahead=LOOKAHEAD + reach_before(schedule, config))
