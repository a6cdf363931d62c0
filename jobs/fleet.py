"""Definitions from a file beside what the rows say → what would change, then the change (JOB-3, JOB-6).

The plan is made first and shown or carried out unchanged: rows that somebody edits in between are
StaleVersionError, and nothing is written. Jobs that code or a polling scheduler owns may stand in a
file as long as they say the same; anything else about them is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from django.db import transaction
from django.db.models import Prefetch

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
    jobs = Job.objects.registered().prefetch_related(Prefetch("tasks", Task.objects.current()))
    rows = {row.name: row for row in _named(jobs, names)}
    for name in names:
        if name not in rows:
            raise UnknownJobError(name)
    return {"jobs": [_entry(rows[name]) for name in sorted(rows)]}


def plan(entries: Sequence[Entry], *, now: datetime, prune: bool = False) -> Plan:
    """`prune`: jobs that files own and this one does not name are removed."""
    new: list[Definition] = []
    changed: list[Changed] = []
    preserved: list[str] = []
    refused: list[str] = []
    rows = _known(entry.definition.name for entry in entries)
    for entry in entries:
        row = rows.get(entry.definition.name)
        before = definition_of(row, row.tasks.all()) if row else None
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


def _entry(job: Job) -> dict[str, Any]:
    """Databases keep JSON keys in orders of their own; a file has one order everywhere."""
    definition = definition_of(job, job.tasks.all()).dumped()
    return {
        "name": job.name,
        **({"origin": job.origin} if Origin(job.origin) in OWNED else {}),
        "schedule": job.schedule,
        "enabled": job.enabled,
        "config": _in_order(job.config),
        "metadata": _in_order(job.metadata),
        "tasks": [{**task, "config": _in_order(task["config"])} for task in definition["tasks"]],
    }


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _named(jobs: Any, names: Sequence[str]) -> Iterator[Job]:
    if not names:
        return iter(jobs.iterator(chunk_size=BATCH))
    ids = [job_id(name) for name in names]
    return chain.from_iterable(jobs.filter(id__in=ids[n : n + BATCH]) for n in range(0, len(ids), BATCH))


def _known(names: Iterable[str]) -> dict[str, Job]:
    jobs = Job.objects.prefetch_related(Prefetch("tasks", Task.objects.current()))
    wanted = list(names)
    return {row.name: row for row in _named(jobs, wanted)} if wanted else {}


def _resolved(item: Definition, row: Job | None, now: datetime) -> Definition:
    """As it would be stored: the operator's switch, and `@once +20m` as the instant it means now."""
    enabled = item.enabled if item.enabled is not None else (row.enabled if row else True)
    zone = item.config.get("timezone") or platform().get("timezone")
    relative = "@once" in item.schedule.lower()
    schedule = absolute(item.schedule, timezone=zone, now=now) if relative else item.schedule
    return replace(item, enabled=enabled, schedule=schedule)


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
