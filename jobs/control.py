"""Trigger, start, stop, pause, resume, remove and query a job by its name (JOB-8).

`punctual.operations.job_requests` calls these for a person, and writes the audit.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast
from uuid import UUID

from django.db import InterfaceError, OperationalError

from punctual.jobs.clock import database_now
from punctual.jobs.config.choices import Backlog
from punctual.jobs.errors import DatabaseAwayError, DefinitionError, PunctualError, UnknownJobError
from punctual.jobs.job_schedule import is_within_bounds, schedule_of, upcoming
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import Change, store
from punctual.jobs.store.definitions import remove as store_remove
from punctual.jobs.store.rows import definition_of

Call = TypeVar("Call", bound=Callable[..., Any])


def scheduling_call(function: Call) -> Call:
    """Raise DatabaseAwayError instead of the driver's error when the database does not answer (TSK-9)."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (OperationalError, InterfaceError) as error:
            raise DatabaseAwayError(function.__name__, error) from error

    return cast(Call, wrapper)


MAX_REASON = 500  # the columns of a version and of a pause
BACKLOGS = tuple(Backlog)


@scheduling_call
def trigger(
    name: str,
    *,
    args: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> UUID:
    """Run a job now, in addition to its schedule; return the id of the occurrence.

    `args` reach the task as `ctx.args`; `config` overrides settings for this one occurrence. With an
    `idempotency_key`, a second call within 24 hours (the setting `idempotency_lifetime`) returns the first
    one's occurrence; with other `args` or `config` it is refused.
    """
    job = get_job(name)
    if job.removed:
        raise PunctualError(f"{name!r} is no longer registered; it cannot be triggered")
    if job.origin == Origin.POLLING:
        raise PunctualError(f"{name!r} is started by its own polling scheduler; it cannot be triggered")
    return connected_ledger().trigger(
        job,
        args={} if args is None else args,
        overrides=config,
        idempotency_key=idempotency_key,
        now=database_now(),
    )


@scheduling_call
def skip_next(name: str) -> UUID | None:
    """Skip the schedule's next planned occurrence and return its id; None if none is planned."""
    return connected_ledger().skip_next(get_job(name), now=database_now())


@scheduling_call
def reschedule(occurrence: UUID, run_at: datetime) -> None:
    """Start one planned occurrence at another time; the schedule does not change."""
    connected_ledger().reschedule(occurrence, run_at=run_at, now=database_now())


@scheduling_call
def start(name: str, *, author: str = "operator", reason: str = "") -> bool:
    """Enable a stopped job; nothing is owed for the time it was off. False if it was enabled."""
    return _switch(name, author, reason, enabled=True)


@scheduling_call
def stop(name: str, *, author: str = "operator", reason: str = "") -> bool:
    """Disable a job: nothing is planned until it is started again. False if it was disabled."""
    return _switch(name, author, reason, enabled=False)


def _switch(name: str, author: str, reason: str, *, enabled: bool) -> bool:
    """Store the switch as a version: the versions say from when to when instants were owed."""
    job = get_job(name)
    if job.enabled is enabled:
        return False
    definition = replace(definition_of(job, job.tasks.all()), enabled=enabled)
    switched = ": ".join(filter(None, ["started" if enabled else "stopped", reason]))[:MAX_REASON]
    change = Change(Origin(job.origin), author, database_now(), reason=switched)
    return bool(store([definition], change, expected={name: job.version}).changed)


@scheduling_call
def pause(name: str, *, reason: str = "", until: datetime | None = None, backlog: str = "none") -> bool:
    """Pause a job: its instants are recorded as skipped. False if it was paused.

    With `until`, a beat resumes the job then, with this `backlog`; without it, `resume` does.
    """
    if len(reason) > MAX_REASON:
        expected = f"expected at most {MAX_REASON} characters, not {len(reason):,}"
        raise DefinitionError("reason", reason[:20], expected, owner=name)
    if until is not None and until.tzinfo is None:
        raise DefinitionError("until", until, "expected an instant with a time zone", owner=name)
    choice = _backlog(backlog, name)
    job = get_job(name)
    return connected_ledger().pause(job.pk, clock=database_now, reason=reason, until=until, backlog=choice)


@scheduling_call
def resume(name: str, *, backlog: str = "none") -> bool:
    """Run a paused job again from its next instant on. False if it was not paused.

    Every instant up to now is recorded as skipped first, whether or not a beat ran during the pause. Then
    `backlog` decides what runs of them: `none`, the `last`, `all` in their order, or one `compressed` run
    that covers them all.
    """
    choice = _backlog(backlog, name)
    job = get_job(name)
    _refuse_suspended(job)
    return connected_ledger().resume(job.pk, backlog=choice, clock=database_now)


def _backlog(choice: str, name: str) -> Backlog:
    if choice not in BACKLOGS:
        raise DefinitionError("backlog", choice, f"expected one of {', '.join(BACKLOGS)}", owner=name)
    return Backlog(choice)


def _refuse_suspended(job: Job) -> None:
    """A schedule that says suspend=true is not overruled by a column."""
    if job.suspended:
        reason = "its @policy says suspend=true; change the schedule to resume the job"
        raise DefinitionError("schedule", job.schedule, reason, owner=job.name)


@scheduling_call
def remove(name: str, *, author: str = "operator", reason: str = "") -> bool:
    """Remove a job that was made in the admin; its history stays. False if it was removed.

    Code, files and polling schedulers remove their jobs themselves.
    """
    job = get_job(name)
    if job.origin != Origin.ADMIN:
        allowed = f"expected a job made in the admin; this one is {Origin(job.origin).label}"
        raise DefinitionError("name", name, allowed)
    return bool(store_remove([job.pk], Change(Origin.ADMIN, author, database_now(), reason=reason)))


def next_run(name: str) -> datetime | None:
    """When the next planned occurrence starts, with stagger and jitter; None if none is planned."""
    return connected_ledger().next_run(get_job(name))


def is_active(name: str) -> bool:
    """Whether the time is inside the schedule's start and end."""
    return is_within_bounds(schedule_of(get_job(name)), database_now())


def is_paused(name: str) -> bool:
    """Whether the job is paused, by an operator or by its schedule's `@policy(suspend=true)`.

    A pause with an end is over when that has come.
    """
    return _is_held(get_job(name), database_now())


def is_enabled(name: str) -> bool:
    """Whether the job is active, switched on, registered and not paused."""
    job, now = get_job(name), database_now()
    held = job.removed or not job.enabled or _is_held(job, now)
    return not held and is_within_bounds(schedule_of(job), now)


def _is_held(job: Job, now: datetime) -> bool:
    paused = job.paused and (job.paused_until is None or now < job.paused_until)
    return paused or job.suspended


def is_running(name: str) -> bool:
    """Whether an occurrence is active on any worker, according to the database."""
    return connected_ledger().is_running(get_job(name))


def next_runs(name: str, count: int = 5) -> list[datetime]:
    """Return the next instants of the schedule, in UTC."""
    return upcoming(get_job(name), database_now(), count)


def get_job(name: str) -> Job:
    """Return the row of a job; UnknownJobError if there is none."""
    try:
        return Job.objects.get(name=name)
    except Job.DoesNotExist:
        raise UnknownJobError(name) from None
