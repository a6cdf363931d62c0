"""Name the logged-in user as the requester of an action, and write Django's admin log for changed rows."""

from functools import partial
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest

from punctual.recovery.requester import Requester


def requester_of(request: HttpRequest, reason: str = "") -> Requester:
    return Requester(request.user.get_username(), reason, log=partial(log_change, request.user))


def log_change(user: Any, row: Model, message: str) -> None:
    """Called inside the transaction of the change."""
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(row),
        object_id=str(row.pk),
        object_repr=str(row)[:200],
        action_flag=CHANGE,
        change_message=message,
    )
