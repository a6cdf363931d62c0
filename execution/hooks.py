"""Finished occurrences → their completion hooks called; a failing hook changes nothing (JOB-9).

Hooks are owed as long as `finalized_at` is empty: a worker that dies in between leaves the debt to
the sweeper, so a hook is called at least once.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from execution.dispatch import BROKER_ERRORS
from execution.messages import settle_message
from jobs.events import Event, emit
from jobs.registry import registry
from occurrences import transitions
from occurrences.models import Occurrence


def start_hooks(ids: Collection[UUID]) -> None:
    if not ids or not any(job.start_hooks for job in registry.jobs.values()):
        return
    for occurrence in Occurrence.objects.filter(id__in=ids).select_related("job"):
        declared = registry.jobs.get(occurrence.job.name)
        for hook in declared.start_hooks if declared else ():
            _called(hook, occurrence, occurrence)


def completion_hooks(ids: Collection[UUID], *, now: datetime) -> int:
    if not ids:
        return 0
    owed = Occurrence.objects.unfinalized().filter(id__in=ids).select_related("job")
    rows = list(owed.order_by("finished_at", "id"))
    for occurrence in rows:
        declared = registry.jobs.get(occurrence.job.name)
        for hook in declared.complete_hooks if declared else ():
            _called(hook, occurrence.report, occurrence)
    return transitions.finalize([row.id for row in rows], now=now) if rows else 0


def ask_for_hooks(ids: Collection[UUID]) -> int:
    """Have a worker call the hooks still owed; should the broker refuse, the sweeper asks again."""
    if not ids:
        return 0
    owed = list(Occurrence.objects.unfinalized().filter(id__in=ids).values_list("id", flat=True))
    try:
        for id_ in owed:
            settle_message(id_).apply_async()
    except BROKER_ERRORS as error:
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(owed), error=type(error).__name__)
    return len(owed)


def _called(hook: Callable[[Any], object], argument: Any, occurrence: Occurrence) -> None:
    try:
        hook(argument)
    except Exception as error:  # noqa: BLE001 - a hook's failure is its own
        facts = {
            "job": occurrence.job.name,
            "occurrence": occurrence.shown_id,
            "error": repr(error),
        }
        emit(Event.HOOK_FAILED, **facts)
