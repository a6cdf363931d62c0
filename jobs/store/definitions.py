"""Store, restore and remove definitions; each change is one version (JOB-5, JOB-10)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import transaction

from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError, StaleVersionError, UnknownJobError
from punctual.jobs.ids import job_id
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.models import Job, JobVersion, Origin
from punctual.jobs.store import rows
from punctual.jobs.store.function_permissions import refused_functions
from punctual.jobs.store.raw_edits import record_raw_edits
from punctual.jobs.store.update_policy import IMMEDIATE, UpdatePolicy

# Origins whose jobs only their owner may change, and what to tell others.
OWNED = {Origin.CODE: "declared in code; change it there", Origin.POLLING: "owned by a polling scheduler"}

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Change:
    """Who changes definitions, why, when, and how planned occurrences follow.

    `permissions`: those of the author that functions ask for (`punctual.jobs.store.function_permissions`).
    """

    origin: Origin
    author: str
    now: datetime
    reason: str = ""
    policy: UpdatePolicy | None = IMMEDIATE  # None: as the setting `update_policy` of each job says
    permissions: Collection[str] = ()


@dataclass(frozen=True)
class Stored:
    """Names of jobs by what `store` did with them."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    preserved: tuple[str, ...] = ()


def store(
    definitions: Iterable[Definition],
    change: Change,
    *,
    expected: Mapping[str, int] | None = None,
    progress: Progress = lambda _done: None,
) -> Stored:
    """Write definitions, all or none; `expected` maps names to the versions an editor has read."""
    ordered = sorted(definitions, key=lambda item: job_id(item.name))
    results: list[Stored] = []
    with transaction.atomic():
        for batch in rows.batches(ordered):
            results.append(_store_batch(batch, change, expected or {}))
            progress(len(batch))
    return Stored(
        *(tuple(sorted(name for part in results for name in getattr(part, kind))) for kind in vars(Stored()))
    )


def restore(name: str, number: int, change: Change) -> Stored:
    """Store the definition of an old version as a new version.

    The job keeps its origin. If code or a polling scheduler owns it, the edit is refused like any other.
    """
    job = Job.objects.filter(id=job_id(name)).first()
    if job is None:
        raise UnknownJobError(name)
    versions = JobVersion.objects.filter(job=job).order_by("number")
    version = versions.filter(number=number).first()
    if version is None:
        numbers = ", ".join(str(known) for known in versions.values_list("number", flat=True)) or "none"
        raise DefinitionError("version", number, f"expected one of {numbers}", owner=name)
    origin = change.origin if Origin(job.origin) in OWNED else Origin(job.origin)
    definition = Definition.load(version.after)
    return store([definition], replace(change, origin=origin), expected={name: job.version})


def remove(jobs: Collection[UUID], change: Change) -> tuple[str, ...]:
    """Mark those of the jobs as removed that belong to the change's origin; return their names.

    The rows stay for their history. Planned occurrences are deleted, and a version row records until when the
    job's instants were owed.
    """
    names: list[str] = []
    with transaction.atomic():
        for batch in rows.batches(sorted(jobs)):
            names += _remove_batch(batch, change)
    return tuple(sorted(names))


def _remove_batch(jobs: Sequence[UUID], change: Change) -> list[str]:
    # Filtered when the locks are held: another process may have removed a job or taken it over.
    locked = rows.lock_jobs(Job.objects.registered().filter(id__in=jobs, origin=change.origin))
    if not locked:
        return []
    record_raw_edits(locked.values(), now=change.now)
    before = rows.read_definitions(locked, rows.read_tasks(locked))
    after = {id_: rows.as_removed(definition) for id_, definition in before.items()}
    ledger, ids = connected_ledger(), list(locked)
    ledger.plan_jobs(ids, now=change.now)
    for job in locked.values():
        job.version, job.removed_at, job.updated_at = job.version + 1, change.now, change.now
    rows.update_jobs(list(locked.values()))
    ledger.replan(ids, policy=change.policy, now=change.now)
    rows.insert_versions(after, before, locked, change, counts_from={})
    return [job.name for job in locked.values()]


def _store_batch(batch: Sequence[Definition], change: Change, expected: Mapping[str, int]) -> Stored:
    wanted = {job_id(item.name): item for item in batch}
    jobs = rows.lock_jobs(Job.objects.filter(id__in=wanted))
    missing = {id_: _with_switch(item, None) for id_, item in wanted.items() if id_ not in jobs}
    new = rows.insert_jobs(missing, change)
    if len(jobs) + len(new) < len(wanted):  # another process has inserted some of them
        late = [id_ for id_ in wanted if id_ not in jobs and id_ not in new]
        jobs |= rows.lock_jobs(Job.objects.filter(id__in=late))
    tasks = rows.read_tasks(jobs)
    before = rows.read_definitions(jobs, tasks)
    after = {id_: _with_switch(item, jobs.get(id_)) for id_, item in wanted.items()}
    for job in jobs.values():
        _check(job, change, expected)
    changed = [id_ for id_, job in jobs.items() if _differs(job, before[id_], after[id_], change)]
    written = {id_: after[id_] for id_ in (*new, *changed)}
    if change.origin not in OWNED:
        _check_functions(written, before, change)
    if changed:
        rows.lock_tasks(changed)
        record_raw_edits([jobs[id_] for id_ in changed], now=change.now)
        connected_ledger().plan_jobs(changed, now=change.now)
    previous = {id_: rows.as_removed(before[id_]) if jobs[id_].removed else before[id_] for id_ in changed}
    rows.update_jobs([rows.apply_definition(jobs[id_], after[id_], change) for id_ in changed])
    rows.write_tasks(written, tasks, change.now)
    kept = connected_ledger().replan(changed, policy=change.policy, now=change.now) if changed else {}
    rows.insert_versions(written, previous, jobs, change, counts_from=kept)
    return Stored(
        new=tuple(after[id_].name for id_ in new),
        changed=tuple(after[id_].name for id_ in changed),
        preserved=tuple(item.name for id_, item in after.items() if id_ not in written),
    )


def _with_switch(definition: Definition, job: Job | None) -> Definition:
    """Keep what the operator set when the definition does not say whether the job is enabled."""
    if definition.enabled is not None:
        return definition
    return replace(definition, enabled=job.enabled if job else True)


def _check(job: Job, change: Change, expected: Mapping[str, int]) -> None:
    version = expected.get(job.name, job.version)
    if version != job.version:
        raise StaleVersionError(job.name, expected=version, actual=job.version)
    owner = Origin(job.origin)
    if owner in OWNED and change.origin not in (owner, Origin.CODE) and not job.removed:
        raise DefinitionError("name", job.name, OWNED[owner])


def _check_functions(
    written: Mapping[UUID, Definition], before: Mapping[UUID, Definition], change: Change
) -> None:
    for id_, definition in written.items():
        for error in refused_functions(definition, change.permissions, before=before.get(id_)):
            raise error


def _differs(job: Job, before: Definition, after: Definition, change: Change) -> bool:
    return before != after or job.removed or job.origin != change.origin
