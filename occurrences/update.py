"""Changed jobs → their planned occurrences adjusted, in the transaction of the change; or only shown.

The cursor is locked before anything is looked at: a beat that fires at this moment either has fired
(then the row is no longer pending and stays) or waits and fires what is left.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from jobs.definition import Definition
from jobs.errors import PunctualError
from jobs.ids import job_id
from jobs.models import Job
from jobs.policy import PendingDiff, Update, UpdatePolicy
from jobs.scheduling import job_config, schedule_of
from occurrences.diff import Replan
from occurrences.diff import replan as decide
from occurrences.ids import occurrence_id
from occurrences.materialize import create_missing, plannable, planned_row, write_cursors
from occurrences.models import Cause, Cursor, Occurrence
from occurrences.states import OccurrenceState
from occurrences.writing import Row
from schedules import FixedDelay, Schedule, ScheduleError

Pending = dict[UUID, list[datetime]]


def replan(jobs: Collection[UUID], *, policy: UpdatePolicy, now: datetime) -> dict[UUID, datetime]:
    """Call inside the transaction of the change; returns the old instants that new schedules wait for."""
    rows = Cursor.objects.filter(job__in=jobs).select_related("job").order_by("job_id")
    cursors = list(rows.select_for_update(of=("self",), no_key=True))
    pending = _pending(jobs, now)
    plans = {cursor: _decided(cursor.job, pending, policy, now) for cursor in cursors}
    _forget(plans)
    create_missing(row for cursor, plan in plans.items() for row in _created(cursor.job, plan, now))
    for cursor, plan in plans.items():
        cursor.planned_until, cursor.plan_at, cursor.problem = plan.planned_until, plan.plan_at, ""
        cursor.settled_until = max(cursor.settled_until, min(now, plan.planned_until))
    write_cursors(cursors)
    graceful = policy.kind is Update.GRACEFUL
    return {cursor.job_id: plan.keep[0] for cursor, plan in plans.items() if graceful and plan.keep}


def preview(definitions: Sequence[Definition], *, policy: UpdatePolicy, now: datetime) -> list[PendingDiff]:
    """What `replan` would do, without doing it."""
    ids = [job_id(item.name) for item in definitions]
    known = {row.id: row for row in Job.objects.filter(id__in=ids)}
    pending = _pending(ids, now)
    diffs = []
    for id_, item in zip(ids, definitions, strict=True):
        plan = _decided(_as_row(item, known.get(id_), now), pending, policy, now)
        diffs.append(PendingDiff(item.name, plan.added, plan.removed, plan.kept))
    return diffs


def _as_row(item: Definition, known: Job | None, now: datetime) -> Job:
    """The job as it would be stored; never saved."""
    enabled = item.enabled if item.enabled is not None else (known.enabled if known else True)
    return Job(
        id=job_id(item.name),
        name=item.name,
        schedule=item.schedule,
        config=dict(item.config),
        enabled=enabled,
        created_at=known.created_at if known else now,
    )


def _decided(job: Job, pending: Pending, policy: UpdatePolicy, now: datetime) -> Replan:
    ahead = pending.get(job.id, ())
    try:
        schedule = _schedule(job)
        if isinstance(schedule, FixedDelay):
            # What comes next depends on the ledger, not on the calendar: the next tick looks there.
            return replace(decide(None, ahead, policy=policy, now=now), plan_at=now)
        return decide(schedule, ahead, policy=policy, now=now)
    except Exception:  # noqa: BLE001 - a kind may be user code; the next tick records what is wrong with it
        return replace(decide(None, ahead, policy=policy, now=now), plan_at=now)


def _schedule(job: Job) -> Schedule | None:
    try:
        return schedule_of(job) if plannable(job) else None
    except (ScheduleError, PunctualError):
        return None


def _pending(jobs: Collection[UUID], now: datetime) -> Pending:
    found: Pending = {}
    rows = Occurrence.objects.filter(job__in=jobs, state=OccurrenceState.PENDING, cause=Cause.SCHEDULE)
    for owner, instant in rows.filter(scheduled_for__gt=now).values_list("job_id", "scheduled_for"):
        found.setdefault(owner, []).append(instant)
    return found


def _forget(plans: dict[Cursor, Replan]) -> None:
    gone = [occurrence_id(cursor.job_id, at) for cursor, plan in plans.items() for at in plan.forget]
    if gone:
        rows = Occurrence.objects.filter(id__in=gone, state=OccurrenceState.PENDING)
        # Nothing refers to a pending row of a schedule yet, so there is nothing to collect first.
        rows._raw_delete(rows.db)  # noqa: SLF001


def _created(job: Job, plan: Replan, now: datetime) -> Iterable[Row]:
    schedule = _schedule(job)
    if schedule is None:
        return
    config = job_config(job)
    for instant in plan.create:
        yield planned_row(job, schedule, config, instant, now)
