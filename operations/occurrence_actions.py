"""Actions on occurrences: replay, replay what failed, cancel, skip (EXE-10, OCC-9, REC-4).

The functions take ids and write the audit; `criteria` is the filter that found the ids, for its details. The
actions select the rows that are in the right state.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.cancel import cancel
from punctual.occurrences import transitions
from punctual.occurrences.models import Occurrence
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import OCCURRENCE_ACTIVE, OCCURRENCE_FINAL, OccurrenceState, Reason
from punctual.operations.action import (
    Action,
    Call,
    OccurrenceSelection,
    Parameter,
    ParameterKind,
    Preview,
    Progress,
    Result,
    Scope,
    no_progress,
)
from punctual.operations.audit import audited
from punctual.operations.models import AuditedAction
from punctual.operations.permissions import Permission
from punctual.recovery.replay import Replayed, batches, originals_to_replay, replay, replayable
from punctual.recovery.requester import Requester

MAX_SELECTED = 100_000
WAITING = (OccurrenceState.PENDING, OccurrenceState.QUEUED)
Criteria = Mapping[str, Any] | None
SelectionCall = Call[OccurrenceSelection]
REQUEST_KEY = Parameter(
    "key", "request key", ParameterKind.TEXT, default=lambda _now: str(uuid4()), pinned=True
)


def cancel_occurrences(
    ids: Collection[UUID],
    *,
    requester: Requester,
    now: datetime,
    criteria: Criteria = None,
    progress: Progress = no_progress,
) -> int:
    """Cancel active occurrences, and dispatch those that waited for their slots."""
    with audited(AuditedAction.CANCEL, requester, now=now, details=criteria or _ids_detail(ids)) as entry:
        for batch in batches(sorted(ids)):
            with transaction.atomic():
                ended = cancel(batch, reason=Reason.OPERATOR, now=now, clean_up=True)
                entry.add(len(ended.finished) + len(ended.cleaning))
            dispatch(ended.released, now=now)
            progress(len(batch))
    return entry.count


def skip_occurrences(
    ids: Collection[UUID],
    *,
    requester: Requester,
    now: datetime,
    criteria: Criteria = None,
    progress: Progress = no_progress,
) -> int:
    """Skip planned and queued occurrences; their schedules go on."""
    with audited(AuditedAction.SKIP, requester, now=now, details=criteria or _ids_detail(ids)) as entry:
        for batch in batches(sorted(ids)):
            with transaction.atomic():
                entry.add(transitions.skip(_lock_waiting(batch), reason=Reason.OPERATOR, now=now))
            progress(len(batch))
    return entry.count


def replay_occurrences(  # noqa: PLR0913 - one request
    ids: Iterable[UUID],
    *,
    requester: Requester,
    now: datetime,
    failed_only: bool = False,
    key: str | None = None,
    criteria: Criteria = None,
    progress: Progress = no_progress,
) -> Replayed:
    """Replay finished occurrences; `key` identifies the request, so that repeating it adds nothing."""
    ids, key = list(dict.fromkeys(ids)), key or str(uuid4())
    chosen = criteria or {"of": [str(id_) for id_ in ids]}
    details = {"key": key, "failed_only": failed_only, **chosen}
    with audited(AuditedAction.REPLAY, requester, now=now, details=details) as entry:
        return replay(
            ids, requester=requester, now=now, failed_only=failed_only, key=key,
            record=entry.add, progress=progress,
        )  # fmt: skip


def _lock_waiting(ids: Collection[UUID]) -> list[UUID]:
    """Lock the rows, so that the count in the audit holds although beats fire at the same time."""
    rows = Occurrence.objects.filter(id__any=ids, state__in=WAITING)
    return list(rows.order_by("id").select_for_update(no_key=True).values_list("id", flat=True))


def _ids_detail(ids: Iterable[UUID]) -> dict[str, Any]:
    return {"occurrences": [str(id_) for id_ in sorted(ids)]}


def _selected_ids(rows: OccurrenceQuerySet) -> list[UUID]:
    return list(rows.values_list("id", flat=True)[:MAX_SELECTED])


def select_active(selection: OccurrenceSelection) -> OccurrenceQuerySet:
    return selection.rows.active().order_by("id")


def select_waiting(selection: OccurrenceSelection) -> OccurrenceQuerySet:
    return selection.rows.filter(state__in=WAITING).order_by("id")


def select_replayable(selection: OccurrenceSelection, *, failed_only: bool) -> OccurrenceQuerySet:
    """A replay can be replayed when it is named by id; a filter leaves replays out."""
    select = replayable if selection.criteria is None else originals_to_replay
    return select(selection.rows, failed_only=failed_only).order_by("scheduled_for", "id")


def _preview(
    select: Callable[[OccurrenceSelection], OccurrenceQuerySet],
) -> Callable[[SelectionCall], Preview]:
    return lambda call: Preview(select(call.target).count())


def _execute_cancel(call: SelectionCall, requester: Requester) -> Result:
    return _ended(CANCEL, call, requester, select_active, cancel_occurrences)


def _execute_skip(call: SelectionCall, requester: Requester) -> Result:
    return _ended(SKIP, call, requester, select_waiting, skip_occurrences)


def _ended(
    action: Action[OccurrenceSelection],
    call: SelectionCall,
    requester: Requester,
    select: Callable[[OccurrenceSelection], OccurrenceQuerySet],
    step: Callable[..., int],
) -> Result:
    count = step(
        _selected_ids(select(call.target)),
        requester=requester,
        now=call.now,
        criteria=call.target.criteria,
        progress=call.progress,
    )
    return Result(count, _message(action, count))


def _execute_replay(call: SelectionCall, requester: Requester, *, failed_only: bool) -> Result:
    replayed = replay_occurrences(
        _selected_ids(select_replayable(call.target, failed_only=failed_only)),
        requester=requester,
        now=call.now,
        failed_only=failed_only,
        key=call.values.get("key") or None,
        criteria=call.target.criteria,
        progress=call.progress,
    )
    count = len(replayed.created)
    action = REPLAY_FAILED if failed_only else REPLAY
    return Result(count, _message(action, count), created=replayed.created)


def _message(action: Action[OccurrenceSelection], count: int) -> str:
    if not count:
        return f"{action.verb}: nothing was changed; the state of the occurrence has changed meanwhile."
    return f"{action.verb}: done."


def _in_state(*states: OccurrenceState) -> Callable[[Occurrence], bool]:
    return lambda occurrence: occurrence.state in states


REPLAY = Action(
    Scope.OCCURRENCES,
    "replay",
    label="Replay",
    verb="Replay",
    permission=Permission.REPLAY_OCCURRENCE,
    description="All tasks run again, as a new occurrence linked to this one.",
    preview=_preview(partial(select_replayable, failed_only=False)),
    execute=partial(_execute_replay, failed_only=False),
    audit=AuditedAction.REPLAY,
    parameters=(REQUEST_KEY,),
    available=_in_state(*OCCURRENCE_FINAL),
)
REPLAY_FAILED = Action(
    Scope.OCCURRENCES,
    "replay-failed",
    label="Replay what failed",
    verb="Replay what failed",
    permission=Permission.REPLAY_OCCURRENCE,
    description="The tasks that did not succeed run again, as a new occurrence linked to this one.",
    preview=_preview(partial(select_replayable, failed_only=True)),
    execute=partial(_execute_replay, failed_only=True),
    audit=AuditedAction.REPLAY,
    parameters=(REQUEST_KEY,),
    available=_in_state(*OCCURRENCE_FINAL),
)
CANCEL = Action(
    Scope.OCCURRENCES,
    "cancel",
    label="Cancel",
    verb="Cancel",
    permission=Permission.CANCEL_OCCURRENCE,
    description="Its runs are asked to stop, and the next occurrence that waits for its slot starts.",
    preview=_preview(select_active),
    execute=_execute_cancel,
    audit=AuditedAction.CANCEL,
    available=_in_state(*OCCURRENCE_ACTIVE),
    dangerous=True,
)
SKIP = Action(
    Scope.OCCURRENCES,
    "skip",
    label="Skip",
    verb="Skip",
    permission=Permission.CANCEL_OCCURRENCE,
    description="It will not run; the schedule goes on.",
    preview=_preview(select_waiting),
    execute=_execute_skip,
    audit=AuditedAction.SKIP,
    available=_in_state(*WAITING),
    dangerous=True,
)
