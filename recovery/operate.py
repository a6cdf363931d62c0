"""An operator's wish about occurrences → canceled or skipped, with an audit entry (EXE-10, OCC-9)."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import transaction

from execution.cancel import cancel
from execution.dispatch import dispatch
from occurrences import transitions
from recovery.audit import Asked, note
from recovery.models import Action
from recovery.replay import batches

REASON = "operator"


def cancel_occurrences(ids: Collection[UUID], *, asked: Asked, now: datetime) -> int:
    """What is active ends; whoever waited for its slot starts."""
    total = 0
    for batch in batches(sorted(ids)):
        with transaction.atomic():
            ended = cancel(batch, reason=REASON, now=now)
            _note(Action.CANCEL, asked, [*ended.finished], now)
        dispatch(ended.released, now=now)
        total += len(ended.finished)
    return total


def skip_occurrences(ids: Collection[UUID], *, asked: Asked, now: datetime) -> int:
    """What is planned or waits is not run; the schedule goes on."""
    total = 0
    for batch in batches(sorted(ids)):
        with transaction.atomic():
            done = transitions.skip(batch, reason=REASON, now=now)
            _note(Action.SKIP, asked, batch[:done], now)
        total += done
    return total


def _note(action: Action, asked: Asked, ids: Collection[UUID], now: datetime) -> None:
    if ids:
        note(action, asked, count=len(ids), now=now, details={"occurrences": [str(id_) for id_ in ids]})
