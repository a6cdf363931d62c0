"""Adjust the pending occurrences of edited jobs in the transaction of the edit, or preview that.

The cursor is locked before anything is read. A beat that fires at the same time has either fired (then the
row is no longer pending and stays) or waits for the lock and fires what is left.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from punctual.jobs.config.cascade import job_config
from punctual.jobs.config.choices import Update
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import PunctualError
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import job_id, occurrence_id
from punctual.jobs.job_schedule import schedule_of, user_code
from punctual.jobs.models import Job
from punctual.jobs.store.update_policy import IMMEDIATE, PendingDiff, UpdatePolicy
from punctual.occurrences.engines.contract import Row
from punctual.occurrences.models import Cause, Cursor, Occurrence
from punctual.occurrences.planning.materialize import plan_at_end_of_pause, write_cursors
from punctual.occurrences.planning.moved_starts import (
    NO_STARTS,
    Starts,
    keep_starts,
    moved_rows,
    read_moved,
    still_named,
)
from punctual.occurrences.planning.new_rows import create_missing, is_plannable, planned_row
from punctual.occurrences.planning.replan_decision import Replan, decide_delay, decide_replan
from punctual.occurrences.states import OccurrenceState
from punctual.schedules import FixedDelay, Schedule, ScheduleError

Pending = dict[UUID, list[datetime]]
Moved = Mapping[UUID, Starts]


def replan(jobs: Collection[UUID], *, policy: UpdatePolicy | None, now: datetime) -> dict[UUID, datetime]:
    """Call inside the transaction of the edit; returns the old instants that new schedules wait for.

    Without a policy each job's own setting decides.
    """
    rows = Cursor.objects.filter(job__in=jobs).select_related("job").order_by("job_id")
    cursors = list(rows.select_for_update(of=("self",), no_key=True))
    pending, moved = _pending(jobs, now), _moved(jobs, now)
    policies = {cursor.job_id: policy or _own_policy(cursor.job) for cursor in cursors}
    plans = {cursor: _decide(cursor.job, pending, moved, policies[cursor.job_id], now) for cursor in cursors}
    _delete_forgotten(plans)
    create_missing(row for cursor, plan in plans.items() for row in _new_rows(cursor.job, plan, moved, now))
    for cursor, plan in plans.items():
        if plan.plan_at is None and not (plan.create or plan.keep) and is_plannable(cursor.job):
            emit(Event.JOB_OVER, job=cursor.job.name, schedule=cursor.job.schedule)
        cursor.planned_until, cursor.plan_at, cursor.problem = plan.planned_until, plan.plan_at, ""
        cursor.settled_until = max(cursor.settled_until, min(now, plan.planned_until))
        plan_at_end_of_pause(cursor, now)
    write_cursors(cursors)
    graceful = {id_ for id_, own in policies.items() if own.kind is Update.GRACEFUL}
    kept = ((cursor.job_id, plan.keep[:1]) for cursor, plan in plans.items() if cursor.job_id in graceful)
    return {id_: instant for id_, first in kept for instant in first}


def _own_policy(job: Job) -> UpdatePolicy:
    try:
        return UpdatePolicy(job_config(job).update_policy)
    except PunctualError:  # an unusable configuration; the next tick records what is wrong with it
        return IMMEDIATE


def preview(
    definitions: Sequence[Definition], *, policy: UpdatePolicy | None, now: datetime
) -> list[PendingDiff]:
    """What `replan` would do, without writing."""
    ids = [job_id(item.name) for item in definitions]
    known = {row.id: row for row in Job.objects.filter(id__in=ids)}
    pending, moved = _pending(ids, now), _moved(ids, now)
    diffs = []
    for id_, item in zip(ids, definitions, strict=True):
        job = _unsaved_job(item, known.get(id_), now)
        plan = _decide(job, pending, moved, policy or _own_policy(job), now)
        diffs.append(PendingDiff(item.name, plan.added, plan.removed, plan.kept))
    return diffs


def _unsaved_job(item: Definition, known: Job | None, now: datetime) -> Job:
    """The job as it would be stored; never saved."""
    enabled = item.enabled if item.enabled is not None else (known.enabled if known else True)
    kept = known is not None and known.schedule == item.schedule and not known.removed
    return Job(
        id=job_id(item.name),
        name=item.name,
        schedule=item.schedule,
        config=dict(item.config),
        enabled=enabled,
        created_at=known.created_at if known else now,
        anchored_at=known.anchored_at if known and kept else now,
    )


def _decide(job: Job, pending: Pending, moved: Moved, policy: UpdatePolicy, now: datetime) -> Replan:
    ahead = pending.get(job.id, [])
    starts = moved.get(job.id, NO_STARTS)
    try:
        with user_code(job):
            return _decide_from(_schedule(job), ahead, starts, policy, now)
    except Exception:  # noqa: BLE001 - a kind may be user code; the next tick records what is wrong with it
        return replace(decide_replan(None, ahead, policy=policy, now=now), plan_at=now)


def _decide_from(
    schedule: Schedule | None, ahead: list[datetime], starts: Starts, policy: UpdatePolicy, now: datetime
) -> Replan:
    if isinstance(schedule, FixedDelay):
        # The next instant depends on when the last occurrence ended: the next tick looks for that. One
        # that an operator has moved counts as the last, until it has run.
        ahead = [instant for instant in ahead if instant not in starts]
        return decide_delay(ahead, policy=policy, now=now)
    plan = decide_replan(schedule, ahead, policy=policy, now=now)
    if schedule is None or not starts:
        return plan
    kept = set(still_named(schedule, starts)) & set(plan.forget)
    return replace(plan, create=tuple(sorted({*plan.create, *kept})))


def _schedule(job: Job) -> Schedule | None:
    try:
        return schedule_of(job) if is_plannable(job) else None
    except (ScheduleError, PunctualError):
        return None


def _pending(jobs: Collection[UUID], now: datetime) -> Pending:
    pending: Pending = {}
    rows = Occurrence.objects.filter(job__in=jobs, state=OccurrenceState.PENDING, cause=Cause.SCHEDULE)
    for job, instant in rows.filter(scheduled_for__gt=now).values_list("job_id", "scheduled_for"):
        pending.setdefault(job, []).append(instant)
    return pending


def _moved(jobs: Collection[UUID], now: datetime) -> Moved:
    return read_moved(moved_rows(jobs).filter(scheduled_for__gt=now))


def _delete_forgotten(plans: dict[Cursor, Replan]) -> None:
    ids = [occurrence_id(cursor.job_id, at) for cursor, plan in plans.items() for at in plan.forget]
    if ids:
        rows = Occurrence.objects.filter(id__in=ids, state=OccurrenceState.PENDING)
        # No row refers to a pending occurrence of a schedule yet, so Django has nothing to collect first.
        rows._raw_delete(rows.db)  # noqa: SLF001


def _new_rows(job: Job, plan: Replan, moved: Moved, now: datetime) -> Iterable[Row]:
    schedule = _schedule(job)
    if schedule is None or not plan.create:
        return []
    config = job_config(job)
    rows = [planned_row(job, schedule, config, instant, now) for instant in plan.create]
    starts = {at: start for at, start in moved.get(job.id, NO_STARTS).items() if at in plan.create}
    return keep_starts(job, schedule, rows, starts, now)
