"""Compare the definitions of a file with the rows, preview the change, carry it out (JOB-3, JOB-6).

`plan` decides what to do and writes nothing; `apply` carries out that plan. If a row changes in between,
`apply` raises StaleVersionError and writes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from punctual.jobs.config.cascade import platform
from punctual.jobs.definition.document import Definition
from punctual.jobs.files.entries import Entry
from punctual.jobs.files.export import read_jobs
from punctual.jobs.job_schedule import make_absolute
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.models import Job, Origin
from punctual.jobs.store.definitions import OWNED, Change, remove, store
from punctual.jobs.store.rows import BATCH, as_removed, batches, definition_of
from punctual.jobs.store.update_policy import PendingDiff, UpdatePolicy

OWNED_ELSEWHERE = (
    "is owned by {origin}, which has not made it here; run `jobs sync`, or drop `origin` from the file"
)


@dataclass(frozen=True)
class ChangedJob:
    before: Definition
    after: Definition
    version: int


@dataclass(frozen=True)
class Plan:
    """What applying a file would do; `refused` lists why it cannot be applied at all."""

    new: tuple[Definition, ...] = ()
    changed: tuple[ChangedJob, ...] = ()
    preserved: tuple[str, ...] = ()
    removed: tuple[Job, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applied:
    """Names of jobs by what `apply` did with them."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    preserved: tuple[str, ...]
    removed: tuple[str, ...]


def plan(entries: Sequence[Entry], *, now: datetime, prune: bool = False) -> Plan:
    """Compare entries with the rows; `prune` removes the jobs of files that this file does not name."""
    new: list[Definition] = []
    changed: list[ChangedJob] = []
    preserved: list[str] = []
    refused: list[str] = []
    names = [entry.definition.name for entry in entries]
    known = {job.name: (job, definition) for job, definition in read_jobs(names)} if names else {}
    for entry in entries:
        job, before = known.get(entry.definition.name, (None, None))
        after = _as_stored(entry.definition, job, now)
        if job and before == after and not job.removed:
            preserved.append(after.name)
        elif reason := _refusal(entry, job):
            refused.append(entry.mistake(reason))
        elif job is None or before is None:
            new.append(after)
        else:
            changed.append(ChangedJob(before, after, job.version))
    removed = _jobs_of_files_except(set(names)) if prune else ()
    return Plan(tuple(new), tuple(changed), tuple(sorted(preserved)), tuple(removed), tuple(refused))


def previews(planned: Plan, *, policy: UpdatePolicy | None, now: datetime) -> Iterator[PendingDiff]:
    """Show what happens to planned occurrences, for every job that changes or is removed."""
    removed = (as_removed(definition_of(job, ())) for job in planned.removed)
    definitions = [*(job.after for job in planned.changed), *removed]
    for batch in batches(definitions):
        yield from connected_ledger().preview(batch, policy=policy, now=now)


def apply(planned: Plan, change: Change, *, progress: Callable[[int], object]) -> Applied:
    """Carry out a plan, all of it or nothing."""
    definitions = [*planned.new, *(job.after for job in planned.changed)]
    versions = {job.after.name: job.version for job in planned.changed}
    with transaction.atomic():
        stored = store(definitions, change, expected=versions, progress=progress)
        removed = remove([job.id for job in planned.removed], replace(change, origin=Origin.FILE))
    # `store` preserves what another process has stored in the meantime.
    preserved = sorted((*stored.preserved, *planned.preserved))
    return Applied(stored.new, stored.changed, tuple(preserved), removed)


def _as_stored(definition: Definition, job: Job | None, now: datetime) -> Definition:
    """Keep the operator's switch if the file does not set it, and resolve `@once +20m` to an instant."""
    enabled = definition.enabled if definition.enabled is not None else (job.enabled if job else True)
    if "@once" not in definition.schedule.lower():
        return replace(definition, enabled=enabled)
    zone = definition.config.get("timezone") or platform().get("timezone")
    schedule = make_absolute(definition.schedule, timezone=zone, now=now)
    return replace(definition, enabled=enabled, schedule=schedule)


def _refusal(entry: Entry, job: Job | None) -> str:
    """Return why a file may not change this job; empty when it may."""
    if job and not job.removed and Origin(job.origin) in OWNED:
        return OWNED[Origin(job.origin)]
    owned = bool(entry.origin) and Origin(entry.origin) in OWNED
    return OWNED_ELSEWHERE.format(origin=entry.origin) if owned else ""


def _jobs_of_files_except(names: set[str]) -> list[Job]:
    jobs = Job.objects.registered().filter(origin=Origin.FILE).order_by("id")
    return [job for job in jobs.iterator(chunk_size=BATCH) if job.name not in names]
