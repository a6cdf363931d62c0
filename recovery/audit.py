"""A request that changed something → one audit entry, and one in Django's log when a user is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType

from recovery.models import Action, Audit


@dataclass(frozen=True)
class Asked:
    """Who asks, and why. `user_id` is set for somebody who is logged in."""

    by: str
    reason: str = ""
    user_id: int | None = None


def note(action: Action, asked: Asked, *, count: int, now: datetime, details: Mapping[str, Any]) -> Audit:
    """Call inside the transaction that does it."""
    entry = Audit.objects.create(
        action=action,
        requested_by=asked.by[:200],
        reason=asked.reason[:500],
        at=now,
        count=count,
        details=dict(details),
    )
    if asked.user_id is not None:
        LogEntry.objects.create(
            user_id=asked.user_id,
            content_type=ContentType.objects.get_for_model(Audit),
            object_id=str(entry.pk),
            object_repr=str(entry)[:200],
            action_flag=CHANGE,
            change_message=asked.reason,
        )
    return entry
