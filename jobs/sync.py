"""Declarations in code → rows: new, preserved, overridden, removed; all of it or nothing (JOB-10)."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from jobs.errors import DefinitionError
from jobs.ids import job_id
from jobs.models import Job, Origin
from jobs.registry import registry
from jobs.store import REMOVED, Change, remove, store


@dataclass(frozen=True)
class Synced:
    """Names by what became of them."""

    new: tuple[str, ...]
    preserved: tuple[str, ...]
    overridden: tuple[str, ...]
    removed: tuple[str, ...]


def sync(now: datetime, *, author: str = "code") -> Synced:
    for job in registry.jobs.values():
        if not job.tasks:
            raise DefinitionError("tasks", [], "a job needs at least one task", owner=job.name)
    declared = [job.definition for job in registry.jobs.values()]
    with transaction.atomic():
        stored = store(declared, Change(Origin.CODE, author, now, reason="declared in code"))
        removed = _remove_undeclared({job_id(item.name) for item in declared}, author, now)
    return Synced(stored.new, stored.preserved, stored.changed, removed)


def _remove_undeclared(declared: set[object], author: str, now: datetime) -> tuple[str, ...]:
    """Known, but no longer registered: the row stays for its history, nothing is planned any more."""
    ours = Job.objects.filter(origin=Origin.CODE, removed_at=None).order_by("id")
    gone = [row for row in ours.select_for_update(no_key=True) if row.id not in declared]
    remove(gone, Change(Origin.CODE, author, now, reason=REMOVED))
    return tuple(sorted(row.name for row in gone))
