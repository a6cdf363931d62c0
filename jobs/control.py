"""A job's name → what people do with it: trigger, start, stop, pause, resume, ask (JOB-8)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs.clock import database_now
from jobs.errors import DefinitionError, PunctualError, UnknownJobError
from jobs.ledger import connected
from jobs.models import Job
from jobs.scheduling import upcoming

BACKLOGS = ("none", "last", "all", "compressed")


def trigger(
    name: str, *, args: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None
) -> UUID:
    """Run a job now, beside its schedule; returns the id of the new occurrence.

    `args` reach the task as `ctx.args`; `config` overrides settings for this one occurrence.
    """
    job = get(name)
    if job.removed:
        raise PunctualError(f"{name!r} is no longer registered; it cannot be triggered")
    return connected().trigger(job, args=args or {}, overrides=config or {}, now=database_now())


def start(name: str) -> bool:
    """Switch a stopped job on; it owes nothing for the time it was off. False when it was on."""
    return _switch(name, enabled=True)


def stop(name: str) -> bool:
    """Switch a job off: nothing is planned until it is started again. False when it was off."""
    return _switch(name, enabled=False)


def _switch(name: str, *, enabled: bool) -> bool:
    job = get(name)
    rows = Job.objects.filter(pk=job.pk, enabled=not enabled)
    return rows.update(enabled=enabled, updated_at=database_now()) == 1


def pause(name: str) -> bool:
    """Hold a job: its instants are recorded as skipped. False when it was paused already."""
    rows = Job.objects.filter(pk=get(name).pk, paused_at=None)
    return rows.update(paused_at=database_now()) == 1


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
