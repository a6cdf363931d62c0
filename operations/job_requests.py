"""Trigger, start, stop, pause, resume and remove a job by its name; a named author leaves an audit entry.

These are the functions of the public API. A program that calls them for itself names no author, and its call
leaves no entry; the console and the commands name one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction

from punctual.jobs import control
from punctual.jobs.clock import database_now
from punctual.jobs.control import scheduling_call
from punctual.operations.audit import audited
from punctual.operations.models import AuditedAction
from punctual.recovery.requester import Requester, no_log

Changed = TypeVar("Changed")
PROGRAM = "operator"  # the author of versions that no person asked for


def carry_out(
    action: AuditedAction, name: str, requester: Requester, change: Callable[[], Changed]
) -> Changed:
    """Change a job and write the audit entry in one transaction; without an author there is no entry."""
    if not requester.by:
        return change()
    unlogged = replace(requester, log=no_log)  # the action logs a line for the job itself
    with (
        transaction.atomic(),
        audited(action, unlogged, now=database_now(), details={"job": name}) as entry,
    ):
        changed = change()
        entry.add(int(bool(changed)))
    return changed


@scheduling_call
def trigger(
    name: str,
    *,
    args: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    author: str = "",
    reason: str = "",
) -> UUID:
    """Run a job now, in addition to its schedule; return the id of the occurrence.

    `args` reach the task as `ctx.args`; `config` overrides settings for this one occurrence. With an
    `idempotency_key`, a second call within 24 hours returns the first one's occurrence.
    """

    def change() -> UUID:
        return control.trigger(name, args=args, config=config, idempotency_key=idempotency_key)

    return carry_out(AuditedAction.RUN, name, Requester(author, reason), change)


@scheduling_call
def start(name: str, *, author: str = "", reason: str = "") -> bool:
    """Enable a stopped job; nothing is owed for the time it was off. False if it was enabled."""
    return carry_out(
        AuditedAction.START,
        name,
        Requester(author, reason),
        lambda: control.start(name, author=author or PROGRAM, reason=reason),
    )


@scheduling_call
def stop(name: str, *, author: str = "", reason: str = "") -> bool:
    """Disable a job: nothing is planned until it is started again. False if it was disabled."""
    return carry_out(
        AuditedAction.STOP,
        name,
        Requester(author, reason),
        lambda: control.stop(name, author=author or PROGRAM, reason=reason),
    )


@scheduling_call
def pause(
    name: str,
    *,
    until: datetime | None = None,
    backlog: str = "none",
    author: str = "",
    reason: str = "",
) -> bool:
    """Pause a job: its instants are recorded as skipped. False if it was paused.

    With `until`, a beat resumes the job then, with this `backlog`; without it, `resume` does.
    """
    return carry_out(
        AuditedAction.PAUSE,
        name,
        Requester(author, reason),
        lambda: control.pause(name, reason=reason, until=until, backlog=backlog),
    )


@scheduling_call
def resume(name: str, *, backlog: str = "none", author: str = "", reason: str = "") -> bool:
    """Run a paused job again from its next instant on. False if it was not paused.

    Every instant up to now is recorded as skipped first, whether or not a beat ran during the pause. Then
    `backlog` decides what runs of them: `none`, the `last`, `all` in their order, or one `compressed` run
    that covers them all.
    """
    return carry_out(
        AuditedAction.RESUME,
        name,
        Requester(author, reason),
        lambda: control.resume(name, backlog=backlog),
    )


@scheduling_call
def remove(name: str, *, author: str = "", reason: str = "") -> bool:
    """Remove a job that was made in the admin; its history stays. False if it was removed."""
    return carry_out(
        AuditedAction.REMOVE,
        name,
        Requester(author, reason),
        lambda: control.remove(name, author=author or PROGRAM, reason=reason),
    )
