"""Write one audit entry per request.

A request may take many transactions. Its entry is written in the first transaction that changes something,
updated in each following one, and marked as finished at the end. If the process dies, the entry counts
exactly what was committed and stays unfinished.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import transaction

from punctual.operations.models import Audit, AuditedAction
from punctual.recovery.requester import Requester

CHANGES_KEY = "done"


class Entry:
    """The audit entry of one request; no other process writes its row."""

    def __init__(
        self, action: AuditedAction, requester: Requester, *, now: datetime, details: Mapping[str, Any]
    ) -> None:
        self.action, self.requester, self.now, self.details = action, requester, now, dict(details)
        self.count = 0
        self.changes: Counter[str] = Counter()
        self._row: Audit | None = None

    def add(self, count: int, /, **kinds: int) -> None:
        """Call inside the transaction of the change. A request that changes nothing leaves no entry."""
        if not count and not any(kinds.values()):
            return
        self.count += count
        self.changes.update(kinds)
        details = self.details | ({CHANGES_KEY: dict(self.changes)} if self.changes else {})
        if self._row is None:
            with transaction.atomic(savepoint=False):
                self._row = self._create(details)
        else:
            Audit.objects.filter(pk=self._row.pk).update(count=self.count, details=details)

    def finish(self) -> None:
        if self._row is not None:
            Audit.objects.filter(pk=self._row.pk).update(finished=True)

    def _create(self, details: Mapping[str, Any]) -> Audit:
        row = Audit.objects.create(
            action=self.action,
            requested_by=self.requester.by[:200],
            reason=self.requester.reason[:500],
            at=self.now,
            count=self.count,
            details=details,
            finished=False,
        )
        self.requester.log(row, self.requester.reason)
        return row


@contextmanager
def audited(
    action: AuditedAction, requester: Requester, *, now: datetime, details: Mapping[str, Any]
) -> Iterator[Entry]:
    """Open the entry of one request. An exception leaves the entry unfinished."""
    entry = Entry(action, requester, now=now, details=details)
    yield entry
    entry.finish()
