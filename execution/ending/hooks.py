"""Call the hooks of occurrences that start and end; a failing hook changes nothing (JOB-9).

Completion hooks are due as long as `finalized_at` is empty. If a worker dies before it is written, the
sweeper asks another one, so a hook is called at least once.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.execution.broker.messages import settle_message
from punctual.execution.worker.connection import user_code
from punctual.jobs.declaration.registry import registry
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
from punctual.occurrences.models import Occurrence


def call_start_hooks(ids: Collection[UUID]) -> None:
    if not ids or not any(job.start_hooks for job in registry.jobs.values()):
        return
    for occurrence in Occurrence.objects.filter(id__in=ids).select_related("job"):
        for hook in registry.start_hooks(occurrence.job.name):
            _call(hook, occurrence, occurrence)


def call_complete_hooks(ids: Collection[UUID], *, now: datetime) -> int:
    if not ids:
        return 0
    due = Occurrence.objects.unfinalized().filter(id__in=ids).select_related("job")
    rows = list(due.order_by("finished_at", "id"))
    for occurrence in rows:
        for hook in registry.complete_hooks(occurrence.job.name):
            _call(hook, occurrence.report, occurrence)
    return transitions.finalize([row.id for row in rows], now=now) if rows else 0


def request_hooks(ids: Collection[UUID]) -> int:
    """Ask a worker to call completion hooks that are due; if the broker fails, the sweeper asks again."""
    if not ids:
        return 0
    due = list(Occurrence.objects.unfinalized().filter(id__in=ids).values_list("id", flat=True))
    try:
        for id_ in due:
            settle_message(id_).apply_async()
    except BROKER_ERRORS as error:
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(due), error=type(error).__name__)
    return len(due)


def _call(hook: Callable[[Any], object], argument: Any, occurrence: Occurrence) -> None:
    try:
        with user_code():
            hook(argument)
    except Exception as error:  # noqa: BLE001 - an error of a hook must not affect the occurrence
        facts = {
            "job": occurrence.job.name,
            "occurrence": occurrence.display_id,
            "error": repr(error),
        }
        emit(Event.HOOK_FAILED, **facts)
