"""Definitions → rows and version rows, all of it or nothing (JOB-5, JOB-10).

Any number of processes may store at once: rows are locked and written in id order, new ones are
inserted with conflicts ignored, so the outcome is the same and nobody deadlocks. Only definition
columns are written; whether a job is paused is the operator's business. A batch of a thousand jobs
takes a constant number of statements.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import ledger
from jobs.definition import Definition, TaskDefinition
from jobs.errors import DefinitionError, StaleVersionError, UnknownJobError
from jobs.ids import job_id, task_id
from jobs.models import Job, JobVersion, Origin, Task
from jobs.policy import IMMEDIATE, UpdatePolicy

BATCH = 1000
JOB_COLUMNS = ["schedule", "config", "metadata", "origin", "removed_at", "enabled", "version", "updated_at"]
TASK_COLUMNS = ["function", "position", "config", "retired_at", "updated_at"]
OWNED = {Origin.CODE: "declared in code; change it there", Origin.POLLING: "owned by a polling scheduler"}

REMOVED = "no longer declared in code"

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Change:
    """Who changes definitions, why, when, and what becomes of occurrences already planned."""

    origin: Origin
    author: str
    now: datetime
    reason: str = ""
    policy: UpdatePolicy = IMMEDIATE


@dataclass(frozen=True)
class Stored:
    """Names by what became of them."""

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
    """`expected` maps names to the versions an editor looked at; a newer one is StaleVersionError."""
    ordered = sorted(definitions, key=lambda item: job_id(item.name))
    stored: list[Stored] = []
    with transaction.atomic():
        for batch in _slices(ordered):
            stored.append(_store_batch(batch, change, expected or {}))
            progress(len(batch))
    return Stored(
        *(tuple(sorted(name for part in stored for name in getattr(part, fate))) for fate in vars(Stored()))
    )


def restore(name: str, number: int, change: Change) -> Stored:
    """An old version's definition, stored as a new version; history only ever grows.

    The job stays whose it was, unless code owns it: then this is refused like any other edit.
    """
    versions = JobVersion.objects.filter(job=job_id(name)).order_by("number")
    job = Job.objects.filter(id=job_id(name)).first()
    if job is None:
        raise UnknownJobError(name)
    old = versions.filter(number=number).first()
    if old is None:
        known = ", ".join(str(known) for known in versions.values_list("number", flat=True)) or "none"
        raise DefinitionError("version", number, f"expected one of {known}", owner=name)
    origin = change.origin if Origin(job.origin) in OWNED else Origin(job.origin)
    return store([Definition.load(old.after)], replace(change, origin=origin), expected={name: job.version})


def remove(rows: Sequence[Job], change: Change) -> None:
    """Known, but no longer registered: nothing is planned any more. A version like any other change, so
    that what was owed until then can be told; call inside a transaction that holds the rows."""
    if not rows:
        return
    ids = [row.id for row in rows]
    tasks = _tasks_of(ids)
    before = {row.id: definition_of(row, tasks.get(row.id, ())) for row in rows}
    ledger.connected().plan_jobs(ids, now=change.now)
    for row in rows:
        row.version, row.removed_at, row.updated_at = row.version + 1, change.now, change.now
    _rewrite(list(rows))
    after = {id_: replace(item, enabled=False) for id_, item in before.items()}
    _write_versions(after, before, {row.id: row for row in rows}, change, {})


def definition_of(job: Job, tasks: Iterable[Task]) -> Definition:
    """What the rows say, whoever wrote them."""
    current = sorted((task for task in tasks if task.retired_at is None), key=attrgetter("position"))
    steps = tuple(TaskDefinition(task.name, task.function, task.config) for task in current)
    return Definition(job.name, job.schedule, job.config, job.metadata, steps, job.enabled)


def _store_batch(batch: Sequence[Definition], change: Change, expected: Mapping[str, int]) -> Stored:
    wanted = {job_id(item.name): item for item in batch}
    rows = _locked(wanted)
    new = _inserted({id_: item for id_, item in wanted.items() if id_ not in rows}, change)
    if len(rows) + len(new) < len(wanted):  # another process was first with some of them
        rows |= _locked([id_ for id_ in wanted if id_ not in rows and id_ not in new])
    tasks = _tasks_of(rows)
    before = {id_: definition_of(row, tasks.get(id_, ())) for id_, row in rows.items()}
    after = {id_: _resolved(item, rows.get(id_)) for id_, item in wanted.items()}
    for row in rows.values():
        _check(row, change, expected)
    changed = [id_ for id_ in rows if _differs(rows[id_], before[id_], after[id_], change)]
    if changed:
        ledger.connected().plan_jobs(changed, now=change.now)
    _rewrite([_updated(rows[id_], after[id_], change) for id_ in changed])
    _write_tasks({id_: after[id_] for id_ in (*new, *changed)}, tasks, change.now)
    kept = ledger.connected().replan(changed, policy=change.policy, now=change.now) if changed else {}
    _write_versions({id_: after[id_] for id_ in (*new, *changed)}, before, rows, change, kept)
    touched = {*new, *changed}
    return Stored(
        new=tuple(after[id_].name for id_ in new),
        changed=tuple(after[id_].name for id_ in changed),
        preserved=tuple(item.name for id_, item in after.items() if id_ not in touched),
    )


def _inserted(missing: Mapping[UUID, Definition], change: Change) -> list[UUID]:
    """Insert them; returns those that this call, and not another process at the same moment, made."""
    if not missing:
        return []
    rows = [_job_row(_resolved(item, None), change) for _, item in sorted(missing.items())]
    # The inserts wait for whoever inserts the same names, so afterwards it is decided who was first.
    Job.objects.bulk_create(rows, ignore_conflicts=True)
    mine = Job.objects.filter(id__in=missing, created_at=change.now, version=1)
    return sorted(mine.values_list("id", flat=True))


def _locked(ids: Iterable[UUID]) -> dict[UUID, Job]:
    # no_key, here and wherever rows are locked: a plain FOR UPDATE would also stop inserts that refer
    # to the row, and an edit (job, then its cursor) and a plan (cursor, then job) would deadlock.
    rows = Job.objects.filter(id__in=list(ids)).order_by("id").select_for_update(no_key=True)
    return {row.id: row for row in rows}


def _tasks_of(jobs: Iterable[UUID]) -> dict[UUID, list[Task]]:
    tasks: dict[UUID, list[Task]] = {}
    for task in Task.objects.filter(job__in=list(jobs)):
        tasks.setdefault(task.job_id, []).append(task)
    return tasks


def _resolved(item: Definition, row: Job | None) -> Definition:
    if item.enabled is not None:
        return item
    return replace(item, enabled=row.enabled if row else True)


def _check(row: Job, change: Change, expected: Mapping[str, int]) -> None:
    wanted = expected.get(row.name, row.version)
    if wanted != row.version:
        raise StaleVersionError(row.name, expected=wanted, actual=row.version)
    owner = Origin(row.origin)
    if owner in OWNED and change.origin not in (owner, Origin.CODE) and not row.removed:
        raise DefinitionError("name", row.name, OWNED[owner])


def _differs(row: Job, before: Definition, after: Definition, change: Change) -> bool:
    return before != after or row.removed or row.origin != change.origin


def _job_row(item: Definition, change: Change) -> Job:
    return Job(
        id=job_id(item.name),
        name=item.name,
        created_at=change.now,
        **_columns(item, change),
    )


def _columns(item: Definition, change: Change) -> dict[str, Any]:
    return {
        "schedule": item.schedule,
        "config": dict(item.config),
        "metadata": dict(item.metadata),
        "enabled": item.enabled,
        "origin": change.origin,
        "updated_at": change.now,
    }


def _updated(row: Job, item: Definition, change: Change) -> Job:
    for column, value in _columns(item, change).items():
        setattr(row, column, value)
    row.version, row.removed_at = row.version + 1, None
    return row


def _rewrite(jobs: list[Job]) -> None:
    # INSERT … ON CONFLICT UPDATE of rows we hold: one plain statement, whatever the columns.
    Job.objects.bulk_create(jobs, update_conflicts=True, unique_fields=["id"], update_fields=JOB_COLUMNS)


def _write_tasks(items: Mapping[UUID, Definition], known: Mapping[UUID, list[Task]], now: datetime) -> None:
    wanted = [row for id_, item in items.items() for row in _task_rows(id_, item, now)]
    Task.objects.bulk_create(
        sorted(wanted, key=attrgetter("id")),
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=TASK_COLUMNS,
    )
    kept = {row.id for row in wanted}
    gone = [
        row.id for id_ in items for row in known.get(id_, ()) if row.id not in kept and not row.retired_at
    ]
    if gone:
        Task.objects.filter(id__in=gone).update(retired_at=now, updated_at=now)


def _task_rows(owner: UUID, item: Definition, now: datetime) -> Iterator[Task]:
    for position, task in enumerate(item.tasks):
        yield Task(
            id=task_id(owner, task.name),
            job_id=owner,
            name=task.name,
            function=task.function,
            position=position,
            config=dict(task.config),
            created_at=now,
            updated_at=now,
        )


def _write_versions(
    items: Mapping[UUID, Definition],
    before: Mapping[UUID, Definition],
    rows: Mapping[UUID, Job],
    change: Change,
    kept: Mapping[UUID, datetime],
) -> None:
    """After the rewrite `rows` carry the new numbers; a new job starts at 1."""
    versions = [
        JobVersion(
            job_id=id_,
            number=rows[id_].version if id_ in rows else 1,
            author=change.author,
            reason=change.reason,
            before=before[id_].dumped() if id_ in before else None,
            after=item.dumped(),
            created_at=change.now,
            counts_from=kept.get(id_),
        )
        for id_, item in items.items()
    ]
    JobVersion.objects.bulk_create(versions, ignore_conflicts=True)


def _slices(items: Sequence[Definition]) -> Iterator[Sequence[Definition]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
