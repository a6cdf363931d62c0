"""Actions on dead letters: replay and purge (TSK-6)."""

from datetime import datetime
from typing import Protocol

from punctual.operations.action import Action, Call, Fact, Preview, Progress, Result, Scope, no_progress
from punctual.operations.audit import audited
from punctual.operations.models import AuditedAction
from punctual.operations.permissions import Permission
from punctual.recovery.dead_letters import (
    DeadLetterFilter,
    Resolved,
    find_dead_letters,
    purge_dead,
    replay_dead,
)
from punctual.recovery.requester import Requester

DeadLetterCall = Call[DeadLetterFilter]
UNIT = ("dead letter", "dead letters")


def replay_dead_letters(
    which: DeadLetterFilter, *, requester: Requester, now: datetime, progress: Progress = no_progress
) -> Resolved:
    """Replay each as a new occurrence of its one task, with one audit entry."""
    with audited(AuditedAction.DLQ_REPLAY, requester, now=now, details=which.details()) as entry:
        return replay_dead(which, requester=requester, now=now, record=entry.add, progress=progress)


def purge_dead_letters(
    which: DeadLetterFilter, *, requester: Requester, now: datetime, progress: Progress = no_progress
) -> Resolved:
    """Mark dead letters as resolved without running them, with one audit entry."""
    with audited(AuditedAction.DLQ_PURGE, requester, now=now, details=which.details()) as entry:
        return purge_dead(which, now=now, record=entry.add, progress=progress)


class _Step(Protocol):
    def __call__(
        self, which: DeadLetterFilter, *, requester: Requester, now: datetime, progress: Progress
    ) -> Resolved: ...


def preview(call: DeadLetterCall) -> Preview:
    return Preview(find_dead_letters(call.target).count(), facts(call.target), UNIT)


def facts(which: DeadLetterFilter) -> list[Fact]:
    values = {
        "job": which.job,
        "task": which.task,
        "fingerprint": which.fingerprint,
        "search": which.search,
        "dead since before": which.before,
    }
    return [(name, value) for name, value in values.items() if value]


def _execute(step: _Step, call: DeadLetterCall, requester: Requester, participle: str) -> Result:
    resolved = step(call.target, requester=requester, now=call.now, progress=call.progress)
    unit = UNIT[0] if resolved.count == 1 else UNIT[1]
    return Result(resolved.count, f"{resolved.count:,} {unit} {participle}.", created=resolved.created)


def _execute_replay(call: DeadLetterCall, requester: Requester) -> Result:
    return _execute(replay_dead_letters, call, requester, "replayed")


def _execute_purge(call: DeadLetterCall, requester: Requester) -> Result:
    return _execute(purge_dead_letters, call, requester, "purged")


REPLAY = Action(
    Scope.DEAD_LETTERS,
    "replay",
    label="Replay",
    verb="Replay",
    permission=Permission.RESOLVE_DEAD_LETTERS,
    description="Each runs again, as a new occurrence of its one task.",
    preview=preview,
    execute=_execute_replay,
    audit=AuditedAction.DLQ_REPLAY,
)
PURGE = Action(
    Scope.DEAD_LETTERS,
    "purge",
    label="Purge",
    verb="Purge",
    permission=Permission.RESOLVE_DEAD_LETTERS,
    description="They stay in the ledger and are marked as resolved; nothing runs.",
    preview=preview,
    execute=_execute_purge,
    audit=AuditedAction.DLQ_PURGE,
    dangerous=True,
)
