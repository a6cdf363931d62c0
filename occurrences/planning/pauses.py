"""Pause and resume a job: settle what a pause skipped, then run the chosen part of it (JOB-8).

A process that opens an occurrence holds the cursor of its job and reads the job afterwards. Pausing and
resuming hold the same cursor, and read the clock when they hold it. So an occurrence starts before a pause or
after it, never within. Resuming is one transaction: after a crash the job is paused as before.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db import DatabaseError, transaction

from punctual.jobs.clock import Clock
from punctual.jobs.config.choices import Backlog
from punctual.jobs.errors import DefinitionError
from punctual.jobs.events import Event, emit, emit_error
from punctual.jobs.models import Job, Pause
from punctual.occurrences import transitions
from punctual.occurrences.models import Cause, Cursor, Occurrence
from punctual.occurrences.planning.materialize import is_pause_over, plan_jobs
from punctual.occurrences.planning.paused_instants import run_skipped
from punctual.occurrences.states import OccurrenceState, Reason

MICROSECOND = timedelta(microseconds=1)
OF_THE_SCHEDULE = (Cause.SCHEDULE, Cause.RECOVERY)


class RowHeldError(Exception):
    """Another session holds a row of the job; a beat does not wait for it."""


def pause(
    job_id: UUID, *, clock: Clock, reason: str = "", until: datetime | None = None, backlog: str = "none"
) -> bool:
    """Pause a job; False if it was paused. With `until`, a beat resumes it then, with this `backlog`."""
    with transaction.atomic():
        job, now = _lock(job_id), clock()
        if until is not None and until <= now:
            raise DefinitionError("until", until.isoformat(), "expected an instant after now", owner=job.name)
        if job.paused and not is_pause_over(job, now):
            return False
        if job.paused:
            _end(job, job.pause_backlog, now)
        columns = {"paused_at": now, "pause_reason": reason, "paused_until": until}
        Job.objects.filter(pk=job_id).update(**columns, pause_backlog=backlog if until else "")
    return True


def resume(job_id: UUID, *, backlog: str, clock: Clock) -> bool:
    """Settle every instant up to now as skipped, and run the chosen ones; False if it was not paused."""
    with transaction.atomic():
        job, now = _lock(job_id), clock()
        if not job.paused:
            return False
        _end(job, backlog, now)
    return True


def end_pauses(jobs: Collection[UUID], *, now: datetime) -> int:
    """Resume those of the jobs whose pause is over and whose rows no other session holds.

    For beats. A job that is left out stays due, and a later tick tries again.
    """
    return sum(_end_one(job_id, now) for job_id in sorted(jobs))


def _end_one(job_id: UUID, now: datetime) -> bool:
    try:
        with transaction.atomic():
            job = _lock(job_id, wait=False)
            # Read again under the lock: an operator may have resumed it, or changed the end.
            if not is_pause_over(job, now):
                return False
            backlog = job.pause_backlog or Backlog.NONE
            instants = _end_usable(job, backlog, now)
    except RowHeldError:
        return False
    emit(Event.JOB_RESUMED, job=job.name, until=job.paused_until, backlog=backlog, occurrences=instants)
    return True


def _end_usable(job: Job, backlog: str, now: datetime) -> int:
    """A schedule that cannot be read has no backlog, and must not stop the beat."""
    try:
        with transaction.atomic():
            return _end(job, backlog, now, wait=False)
    except (RowHeldError, DatabaseError):
        raise
    except Exception:  # noqa: BLE001 - a kind may be user code
        emit_error(Event.JOB_UNPLANNABLE, job=job.name, problem="its backlog cannot be listed")
        return _end(job, Backlog.NONE, now, wait=False)


def _lock(job_id: UUID, *, wait: bool = True) -> Job:
    """Lock the job, then its cursor, as every change of a definition does."""
    job = Job.objects.select_for_update(no_key=True, skip_locked=not wait).filter(pk=job_id).first()
    cursor = Cursor.objects.select_for_update(no_key=True, skip_locked=not wait).filter(job=job_id).first()
    if job is None or cursor is None:
        raise RowHeldError
    return job


def _end(job: Job, backlog: str, now: datetime, *, wait: bool = True) -> int:
    """End the pause and return how many occurrences were created."""
    over = is_pause_over(job, now)
    ended_at = job.paused_until if over and job.paused_until else now
    _settle(job, ended_at, before=ended_at if over else now + MICROSECOND, wait=wait)
    since = job.paused_at or now
    row = Pause(job=job, began_at=since, ended_at=ended_at, reason=job.pause_reason, backlog=backlog)
    Pause.objects.bulk_create([row], ignore_conflicts=True)
    columns = {"paused_at": None, "pause_reason": "", "paused_until": None, "pause_backlog": ""}
    Job.objects.filter(pk=job.pk).update(**columns)
    return run_skipped(job, choice=backlog, since=since, now=now)


def _settle(job: Job, ended_at: datetime, *, before: datetime, wait: bool) -> None:
    """Record what should have started in the pause as skipped, as a beat would have done meanwhile."""
    # Due then, even if a beat has just put it off until the pause is ended.
    Cursor.objects.filter(job=job, plan_at__gt=ended_at).update(plan_at=ended_at)
    plan_jobs([job.pk], now=ended_at)
    pending = Occurrence.objects.filter(job=job, state=OccurrenceState.PENDING, cause__in=OF_THE_SCHEDULE)
    due = pending.filter(run_at__lt=before).order_by("id").values_list("id", flat=True)
    ids = list(due.select_for_update(no_key=True, skip_locked=not wait))
    if not wait and len(ids) < due.count():
        raise RowHeldError
    transitions.skip(ids, reason=Reason.PAUSED, now=ended_at)
