"""A request that changes something → one audit entry, and one in Django's log when a user is known.

A request may take many transactions. Its entry is written in the first that changes something, raised in
each, and marked as finished at the end: whenever the process dies, it says what was committed, and that
the rest was not.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from recovery.models import Action, Audit

DONE = "done"


@dataclass(frozen=True)
class Asked:
    """Who asks, and why. `user_id` is set for somebody who is logged in."""

    by: str
    reason: str = ""
    user_id: int | None = None


class Entry:
    """What one request has done so far; nobody else writes its row."""

    def __init__(self, action: Action, asked: Asked, *, now: datetime, details: Mapping[str, Any]) -> None:
        self.action, self.asked, self.now, self.details = action, asked, now, dict(details)
        self.count = 0
        self.done: Counter[str] = Counter()
        self._row: Audit | None = None

    def add(self, count: int, **done: int) -> None:
        """Call inside the transaction that does it; `done` tells kinds apart. Nothing leaves no entry."""
        if not count and not any(done.values()):
            return
        self.count += count
        self.done.update(done)
        told = self.details | ({DONE: dict(self.done)} if self.done else {})
        if self._row is None:
            with transaction.atomic(savepoint=False):
                self._row = self._begin(told)
        else:
            Audit.objects.filter(pk=self._row.pk).update(count=self.count, details=told)

    def finish(self) -> None:
        if self._row is not None:
            Audit.objects.filter(pk=self._row.pk).update(finished=True)

    def _begin(self, told: Mapping[str, Any]) -> Audit:
        row = Audit.objects.create(
            action=self.action,
            requested_by=self.asked.by[:200],
            reason=self.asked.reason[:500],
            at=self.now,
            count=self.count,
            details=told,
            finished=False,
        )
        if self.asked.user_id is not None:
            LogEntry.objects.create(
                user_id=self.asked.user_id,
                content_type=ContentType.objects.get_for_model(Audit),
                object_id=str(row.pk),
                object_repr=str(row)[:200],
                action_flag=CHANGE,
                change_message=self.asked.reason,
            )
        return row


@contextmanager
def audited(action: Action, asked: Asked, *, now: datetime, details: Mapping[str, Any]) -> Iterator[Entry]:
    """One request. What ends it early leaves its entry as not finished."""
    entry = Entry(action, asked, now=now, details=details)
    yield entry
    entry.finish()
