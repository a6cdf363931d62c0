"""Trigger, start, stop, pause, resume, remove and query a job by its name (JOB-8).

`punctual.operations.job_requests` calls these for a person, and writes the audit.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction

from punctual.jobs.clock import database_now
from punctual.jobs.errors import DatabaseAwayError, DefinitionError, PunctualError, UnknownJobError
from punctual.jobs.job_schedule import upcoming
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
BACKLOGS = ("none", "last", "all", "compressed")


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
def pause(name: str, *, reason: str = "") -> bool:
    """Pause a job: its instants are recorded as skipped. False if it was paused."""
    if len(reason) > MAX_REASON:
        expected = f"expected at most {MAX_REASON} characters, not {len(reason):,}"
        raise DefinitionError("reason", reason[:20], expected, owner=name)
    rows = Job.objects.filter(pk=get_job(name).pk, paused_at=None)
    return rows.update(paused_at=database_now(), pause_reason=reason) == 1


@scheduling_call
def resume(name: str, *, backlog: str = "none") -> bool:
    """Run a paused job again from its next instant on. False if it was not paused.

    `backlog` decides about the instants that were skipped: run `none` of them, the `last`,
    `all`, or one `compressed` run that covers them all.
    """
    if backlog not in BACKLOGS:
        raise DefinitionError("backlog", backlog, f"expected one of {', '.join(BACKLOGS)}", owner=name)
    _refuse_suspended(get_job(name))
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True).get(pk=get_job(name).pk)
        if job.paused_at is None:
            return False
        Job.objects.filter(pk=job.pk).update(paused_at=None, pause_reason="")
        if backlog != "none":
            connected_ledger().run_skipped(job, choice=backlog, since=job.paused_at, now=database_now())
    return True


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
    """Whether the schedule has another instant."""
    return bool(upcoming(get_job(name), database_now(), 1))


def is_paused(name: str) -> bool:
    """Whether the job is paused, by an operator or by its schedule's `@policy(suspend=true)`."""
    job = get_job(name)
    return job.paused or job.suspended


def is_enabled(name: str) -> bool:
    """Whether the job is enabled, registered and not paused."""
    job = get_job(name)
    return job.enabled and not job.paused and not job.suspended and not job.removed


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
