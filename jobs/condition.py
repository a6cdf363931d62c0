"""The condition of a job, from its row and from the functions that code registers."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Exists, OuterRef, Q, TextChoices

from punctual.jobs.declaration.registry import registry
from punctual.jobs.errors import DefinitionError
from punctual.jobs.models import HELD, Job, Origin, Task

MAX_LISTED = 20


class Condition(TextChoices):
    ACTIVE = "active", "active"
    PAUSED = "paused", "paused"
    DISABLED = "disabled", "disabled"
    UNRESOLVED = "unresolved", "unresolved"  # no code registers one of its functions
    REMOVED = "removed", "removed"  # its declaration is gone, its history stays


def condition(job: Job, tasks: Iterable[Task]) -> Condition:
    """Return the condition; one that an operator cannot change hides one that an operator can."""
    if job.removed:
        return Condition.REMOVED
    # The functions of a polling scheduler are in its own process, not in the registry.
    if job.origin != Origin.POLLING and any(is_unresolved(task) for task in tasks):
        return Condition.UNRESOLVED
    if not job.enabled:
        return Condition.DISABLED
    return Condition.PAUSED if job.paused or job.suspended else Condition.ACTIVE


def is_unresolved(task: Task) -> bool:
    """Whether a current task names a function that no code registers."""
    return task.retired_at is None and registry.function(task.function) is None


def unresolved_hooks(config: Mapping[str, Any]) -> list[DefinitionError]:
    """Return an error for each hook that a configuration names and no code registers; its job still runs."""
    known = ", ".join(sorted(registry.hooks)[:MAX_LISTED]) or "none"
    reason = f"no code registers this hook; registered are {known}"
    return [
        DefinitionError(event, name, reason)
        for event in ("on_start", "on_complete")
        for name in config.get(event, ())
        if registry.hook(name) is None
    ]


def in_condition(condition: str) -> Q:
    """Return the filter for jobs in this condition."""
    unresolved_tasks = Task.objects.current().exclude(function__in=registry.functions)
    unresolved = ~Q(origin=Origin.POLLING) & Q(Exists(unresolved_tasks.filter(job=OuterRef("pk"))))
    registered, enabled = Q(removed_at=None), Q(enabled=True)
    return {
        Condition.REMOVED.value: ~registered,
        Condition.UNRESOLVED.value: registered & unresolved,
        Condition.DISABLED.value: registered & ~unresolved & ~enabled,
        Condition.PAUSED.value: registered & ~unresolved & enabled & HELD,
        Condition.ACTIVE.value: registered & ~unresolved & enabled & ~HELD,
    }[condition]
