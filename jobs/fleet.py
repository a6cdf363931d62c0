"""Definitions from a file beside what the rows say → what would change, then the change (JOB-3, JOB-6).

The plan is made first and shown or carried out unchanged: rows that somebody edits in between are
StaleVersionError, and nothing is written. Jobs that code or a polling scheduler owns may stand in a
file as long as they say the same; anything else about them is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import ledger
from jobs.definition import Definition
from jobs.entries import Entry
from jobs.errors import UnknownJobError
from jobs.ids import job_id
from jobs.models import Job, Origin, Task
from jobs.policy import PendingDiff, UpdatePolicy
from jobs.scheduling import platform
from jobs.store import BATCH, OWNED, Change, Stored, definition_of, store
from jobs.timing import absolute

ELSEWHERE = (
    "is owned by {origin}, which has not made it here; run `jobs sync`, or drop `origin` from the file"
)


@dataclass(frozen=True)
class Changed:
    before: Definition
    after: Definition
    version: int


@dataclass(frozen=True)
class Plan:
    """What applying a file would do; `refused` says why it cannot be done at all."""

    new: tuple[Definition, ...] = ()
    changed: tuple[Changed, ...] = ()
    preserved: tuple[str, ...] = ()
    removed: tuple[Job, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applied:
    """Names by what became of them."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    preserved: tuple[str, ...]
    removed: tuple[str, ...]


def exported(names: Sequence[str] = ()) -> dict[str, Any]:
    """The whole fleet, or the jobs named, as a document; sorted, so that two exports compare."""
    found = {row.name: (row, definition) for row, definition in _read(names) if not row.removed}
    for name in names:
        if name not in found:
            raise UnknownJobError(name)
    return {"jobs": [_entry(*found[name]) for name in sorted(found)]}


def plan(entries: Sequence[Entry], *, now: datetime, prune: bool = False) -> Plan:
    """`prune`: jobs that files own and this one does not name are removed."""
    new: list[Definition] = []
    changed: list[Changed] = []
    preserved: list[str] = []
    refused: list[str] = []
    names = [entry.definition.name for entry in entries]
    known = {row.name: (row, definition) for row, definition in _read(names)} if names else {}
    for entry in entries:
        row, before = known.get(entry.definition.name, (None, None))
        after = _resolved(entry.definition, row, now)
        if row and before == after and not row.removed:
            preserved.append(after.name)
        elif reason := _owned(entry, row):
            refused.append(entry.refused(reason))
        elif row is None or before is None:
            new.append(after)
        else:
            changed.append(Changed(before, after, row.version))
    gone = _unnamed({entry.definition.name for entry in entries}) if prune else ()
    return Plan(tuple(new), tuple(changed), tuple(sorted(preserved)), tuple(gone), tuple(refused))


def previews(planned: Plan, *, policy: UpdatePolicy, now: datetime) -> Iterator[PendingDiff]:
    """What becomes of planned occurrences, for every job that changes or goes."""
    gone = (replace(definition_of(row, ()), enabled=False) for row in planned.removed)
    definitions = [*(item.after for item in planned.changed), *gone]
    for start in range(0, len(definitions), BATCH):
        batch = definitions[start : start + BATCH]
        yield from ledger.connected().preview(batch, policy=policy, now=now)


def apply(planned: Plan, change: Change, *, progress: Callable[[int], object]) -> Applied:
    definitions = [*planned.new, *(item.after for item in planned.changed)]
    seen = {item.after.name: item.version for item in planned.changed}
    with transaction.atomic():
        stored = store(definitions, change, expected=seen, progress=progress)
        removed = _removed(planned.removed, change)
    return _applied(stored, planned.preserved, removed)


def _applied(stored: Stored, preserved: Iterable[str], removed: Iterable[str]) -> Applied:
    kept = sorted((*stored.preserved, *preserved))  # somebody may have stored the same meanwhile
    return Applied(stored.new, stored.changed, tuple(kept), tuple(sorted(removed)))


def _entry(job: Job, definition: Definition) -> dict[str, Any]:
    """Databases keep JSON keys in orders of their own; a file has one order everywhere."""
    return {
        "name": job.name,
        **({"origin": job.origin} if Origin(job.origin) in OWNED else {}),
        "schedule": job.schedule,
        "enabled": job.enabled,
        "config": _in_order(job.config),
        "metadata": _in_order(job.metadata),
        "tasks": [{**task, "config": _in_order(task["config"])} for task in definition.dumped()["tasks"]],
    }


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _read(names: Sequence[str]) -> Iterator[tuple[Job, Definition]]:
    """The jobs named, or all of them, with what their rows say: two statements a batch."""
    ids = [job_id(name) for name in names]
    slices = [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
    batches = (Job.objects.filter(id__in=batch) for batch in slices) if names else _batches()
    for batch in batches:
        tasks: dict[UUID, list[Task]] = {}
        for task in Task.objects.current().filter(job__in=[row.id for row in batch]):
            tasks.setdefault(task.job_id, []).append(task)
        yield from ((row, definition_of(row, tasks.get(row.id, ()))) for row in batch)


def _batches() -> Iterator[list[Job]]:
    rows = Job.objects.order_by("id").iterator(chunk_size=BATCH)
    while batch := list(islice(rows, BATCH)):
        yield batch


def _resolved(item: Definition, row: Job | None, now: datetime) -> Definition:
    """As it would be stored: the operator's switch, and `@once +20m` as the instant it means now."""
    enabled = item.enabled if item.enabled is not None else (row.enabled if row else True)
    if "@once" not in item.schedule.lower():
        return replace(item, enabled=enabled)
    zone = item.config.get("timezone") or platform().get("timezone")
    return replace(item, enabled=enabled, schedule=absolute(item.schedule, timezone=zone, now=now))


def _owned(entry: Entry, row: Job | None) -> str:
    """Why a file may not say this about the job; empty when it may."""
    if row and not row.removed and Origin(row.origin) in OWNED:
        return OWNED[Origin(row.origin)]
    marked = bool(entry.origin) and Origin(entry.origin) in OWNED
    return ELSEWHERE.format(origin=entry.origin) if marked else ""


def _unnamed(named: set[str]) -> list[Job]:
    ours = Job.objects.registered().filter(origin=Origin.FILE).order_by("id")
    return [row for row in ours.iterator(chunk_size=BATCH) if row.name not in named]


def _removed(rows: Sequence[Job], change: Change) -> list[str]:
    """Known, but no longer wanted: the row stays for its history, nothing is planned any more."""
    gone: list[Job] = []
    for start in range(0, len(rows), BATCH):
        ids = [row.id for row in rows[start : start + BATCH]]
        ours = Job.objects.registered().filter(id__in=ids, origin=Origin.FILE).order_by("id")
        batch = list(ours.select_for_update(no_key=True))
        held = [row.id for row in batch]
        Job.objects.filter(id__in=held).update(removed_at=change.now, updated_at=change.now)
        ledger.connected().replan(held, policy=change.policy, now=change.now)
        gone += batch
    return [row.name for row in gone]
