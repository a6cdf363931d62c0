"""Due occurrences and what is already active → fire, queue or skip each of them. Pure."""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from uuid import UUID

from jobs.config import Overlap
from occurrences.models import Cause, Occurrence

NO_TASKS = "no tasks"
BROKEN = "unusable configuration"


@dataclass(frozen=True)
class Admission:
    fire: tuple[Occurrence, ...]
    queue: tuple[Occurrence, ...]
    skip: dict[str, list[UUID]]


def admit(
    due: Iterable[Occurrence],
    *,
    busy: Set[UUID],
    with_tasks: Set[UUID],
    broken: Set[UUID] = frozenset(),
) -> Admission:
    """`due` in the order they shall start; `busy` jobs have an active exclusive occurrence."""
    taken = set(busy)
    fire: list[Occurrence] = []
    queue: list[Occurrence] = []
    skip: dict[str, list[UUID]] = {}
    for occurrence in due:
        if reason := _refusal(occurrence, with_tasks, broken):
            skip.setdefault(reason, []).append(occurrence.id)
        elif not occurrence.exclusive or occurrence.job_id not in taken:
            fire.append(occurrence)
            taken |= {occurrence.job_id} if occurrence.exclusive else set()
        elif occurrence.config["overlap"] == Overlap.QUEUE:
            queue.append(occurrence)
        else:
            skip.setdefault("overlap", []).append(occurrence.id)
    return Admission(tuple(fire), tuple(queue), skip)


def _refusal(occurrence: Occurrence, with_tasks: Set[UUID], broken: Set[UUID]) -> str:
    """Why it must not run at all; a manual run goes ahead even when the schedule is held."""
    job = occurrence.job
    if job.id in broken:
        return BROKEN
    if job.id not in with_tasks:
        return NO_TASKS
    if occurrence.cause == Cause.MANUAL:
        return ""
    if job.removed:
        return "removed"
    if not job.enabled:
        return "stopped"
    return "paused" if job.paused else ""
