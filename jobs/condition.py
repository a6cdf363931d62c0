"""A job's row and what code registers → the one word for how it stands."""

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, Q, TextChoices

from jobs.models import Job, Origin, Task
from jobs.registry import registry


class Condition(TextChoices):
    ACTIVE = "active", "active"
    PAUSED = "paused", "paused"
    DISABLED = "disabled", "disabled"
    UNRESOLVED = "unresolved", "unresolved"  # a stored function that no code registers
    REMOVED = "removed", "removed"  # known, but no longer registered


def condition(job: Job, tasks: Iterable[Task]) -> Condition:
    """What stops a job for good comes before what an operator can undo."""
    if job.removed:
        return Condition.REMOVED
    # A polling scheduler keeps its callbacks in its own process; no registry knows them.
    if job.origin != Origin.POLLING and any(unresolved(task) for task in tasks):
        return Condition.UNRESOLVED
    if not job.enabled:
        return Condition.DISABLED
    return Condition.PAUSED if job.paused else Condition.ACTIVE


def unresolved(task: Task) -> bool:
    return task.retired_at is None and registry.function(task.function) is None


def in_condition(wanted: str) -> Q:
    """The same question as a filter on the jobs table."""
    strangers = Task.objects.current().exclude(function__in=registry.functions)
    lost = ~Q(origin=Origin.POLLING) & Q(Exists(strangers.filter(job=OuterRef("pk"))))
    known, running = Q(removed_at=None), Q(enabled=True)
    return {
        Condition.REMOVED.value: ~known,
        Condition.UNRESOLVED.value: known & lost,
        Condition.DISABLED.value: known & ~lost & ~running,
        Condition.PAUSED.value: known & ~lost & running & Q(paused_at__isnull=False),
        Condition.ACTIVE.value: known & ~lost & running & Q(paused_at=None),
    }[wanted]
