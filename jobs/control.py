"""A job's name → what people do with it: trigger, start, stop, pause, resume, ask (JOB-8)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction

from jobs.clock import database_now
from jobs.errors import DatabaseAwayError, DefinitionError, PunctualError, UnknownJobError
from jobs.ledger import connected
from jobs.models import Job, Origin
from jobs.scheduling import upcoming
from jobs.store import Change, definition_of, store

Call = TypeVar("Call", bound=Callable[..., Any])


def scheduling_call(function: Call) -> Call:
    """Without its database a call fails with an error that says so, not with a driver's (TSK-9)."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (OperationalError, InterfaceError) as error:
            raise DatabaseAwayError(function.__name__, error) from error

    return cast(Call, called)


BACKLOGS = ("none", "last", "all", "compressed")


@scheduling_call
def trigger(
    name: str,
    *,
    args: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> UUID:
    """Run a job now, beside its schedule; returns the id of the occurrence.

    `args` reach the task as `ctx.args`; `config` overrides settings for this one occurrence. With an
    `idempotency_key`, a second call within 24 hours returns the first one's occurrence.
    """
    job = get(name)
    if job.removed:
        raise PunctualError(f"{name!r} is no longer registered; it cannot be triggered")
    if job.origin == Origin.POLLING:
        raise PunctualError(f"{name!r} is started by its own polling scheduler; it cannot be triggered")
    return connected().trigger(
        job, args=args or {}, overrides=config, idempotency_key=idempotency_key, now=database_now()
    )


@scheduling_call
def skip_next(name: str) -> UUID | None:
    """Skip the next planned occurrence and keep the schedule; None when none is planned."""
    return connected().skip_next(get(name), now=database_now())


@scheduling_call
def reschedule(occurrence: UUID, run_at: datetime) -> None:
    """Let one planned occurrence start at another time; the schedule goes on as before."""
    connected().reschedule(occurrence, run_at=run_at, now=database_now())


@scheduling_call
def start(name: str, *, author: str = "operator") -> bool:
    """Switch a stopped job on; it owes nothing for the time it was off. False when it was on."""
    return _switch(name, author, enabled=True)


@scheduling_call
def stop(name: str, *, author: str = "operator") -> bool:
    """Switch a job off: nothing is planned until it is started again. False when it was off."""
    return _switch(name, author, enabled=False)


def _switch(name: str, author: str, *, enabled: bool) -> bool:
    """A change like any other, with a version: what was owed when can be told from them."""
    job = get(name)
    if job.enabled is enabled:
        return False
    wanted = replace(definition_of(job, job.tasks.all()), enabled=enabled)
    change = Change(Origin(job.origin), author, database_now(), reason="started" if enabled else "stopped")
    return bool(store([wanted], change, expected={name: job.version}).changed)


@scheduling_call
def pause(name: str) -> bool:
    """Hold a job: its instants are recorded as skipped. False when it was paused already."""
    rows = Job.objects.filter(pk=get(name).pk, paused_at=None)
    return rows.update(paused_at=database_now()) == 1


@scheduling_call
def resume(name: str, *, backlog: str = "none") -> bool:
    """Let a paused job run again from its next instant on. False when it was not paused.

    `backlog` says what to do with the instants skipped meanwhile: run `none` of them, the `last`,
    `all`, or one `compressed` run that covers them all.
    """
    if backlog not in BACKLOGS:
        raise DefinitionError("backlog", backlog, f"expected one of {', '.join(BACKLOGS)}", owner=name)
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True).get(pk=get(name).pk)
        if job.paused_at is None:
            return False
        Job.objects.filter(pk=job.pk).update(paused_at=None)
        if backlog != "none":
            connected().run_skipped(job, choice=backlog, since=job.paused_at, now=database_now())
    return True


def next_run(name: str) -> datetime | None:
    """When the next planned occurrence starts, stagger and jitter included; None when none is planned."""
    return connected().next_run(get(name))


def is_active(name: str) -> bool:
    """Whether the schedule has an instant ahead."""
    return bool(upcoming(get(name), database_now(), 1))


def is_paused(name: str) -> bool:
    return get(name).paused


def is_enabled(name: str) -> bool:
    """Switched on, registered and not paused."""
    job = get(name)
    return job.enabled and not job.paused and not job.removed


def is_running(name: str) -> bool:
    """A question to the database, not to this process: is an occurrence under way anywhere?"""
    return connected().is_running(get(name))


def next_runs(name: str, count: int = 5) -> list[datetime]:
    """The next instants the schedule names, in UTC."""
    return upcoming(get(name), database_now(), count)


def get(name: str) -> Job:
    try:
        return Job.objects.get(name=name)
    except Job.DoesNotExist:
        raise UnknownJobError(name) from None
