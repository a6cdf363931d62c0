"""Write the jobs declared in code to rows, all of them or none (JOB-10)."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.jobs.declaration.registry import Registry
from punctual.jobs.declaration.registry import registry as global_registry
from punctual.jobs.errors import DefinitionError
from punctual.jobs.ids import job_id
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import Change, remove, store


@dataclass(frozen=True)
class Synced:
    """Names of jobs by what `sync` did with them."""

    new: tuple[str, ...]
    preserved: tuple[str, ...]
    overridden: tuple[str, ...]
    removed: tuple[str, ...]


def sync(now: datetime, *, author: str = "code", registry: Registry = global_registry) -> Synced:
    """Store every declaration and mark jobs of code that are no longer declared as removed.

    A process that has not imported all modules of declarations removes nothing: what it does not know may
    still be declared.
    """
    jobs = registry.jobs.values()
    for job in jobs:
        if not job.tasks:
            raise DefinitionError("tasks", [], "a job needs at least one task", owner=job.name)
    declared = [job.definition for job in jobs]
    with transaction.atomic():
        stored = store(declared, Change(Origin.CODE, author, now, "declared in code", policy=None))
        undeclared = (
            _undeclared({job_id(item.name) for item in declared}) if registry.discovery.complete else ()
        )
        removed = remove(undeclared, Change(Origin.CODE, author, now, reason="no longer declared in code"))
    return Synced(stored.new, stored.preserved, stored.changed, removed)


def _undeclared(declared: set[UUID]) -> list[UUID]:
    ids = Job.objects.registered().filter(origin=Origin.CODE).values_list("id", flat=True)
    return [id_ for id_ in ids if id_ not in declared]
