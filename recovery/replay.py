"""Finished occurrences → new, linked ones that run again (REC-4).

The new id follows from the parent and the request's key, so asking twice with one key (a double
click, a command that was repeated) makes it once, and another key makes another one. What is made
goes through the normal doors: pools hold it, and an occurrence under way makes it wait. Many run in the
order they are given in.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID, uuid4, uuid5

from django.db import transaction
from django.db.models import Exists, OuterRef

from jobs.models import Job, Origin
from jobs.scheduling import job_config
from occurrences.keeping import kept
from occurrences.materialize import create_missing, new_occurrence
from occurrences.models import Cause, Occurrence, OccurrenceQuerySet, TaskRun, TaskRunQuerySet
from occurrences.states import OCCURRENCE_FINAL, RunState
from recovery.audit import Asked, audited
from recovery.models import Action

BATCH = 500
NOT_DONE = (RunState.DLQ, RunState.CANCELED)
MICROSECOND = timedelta(microseconds=1)
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Replayed:
    """`refused`: under way, a range, of a removed job, or without a task that failed."""

    made: tuple[UUID, ...] = ()
    refused: int = 0


def replay(  # noqa: PLR0913 - one request
    ids: Iterable[UUID],
    *,
    asked: Asked,
    now: datetime,
    failed_only: bool = False,
    key: str | None = None,
    told: Mapping[str, Any] | None = None,
    progress: Progress = lambda _count: None,
) -> Replayed:
    """`failed_only` runs the tasks that did not succeed; `key` identifies the request, and `told` is for
    the audit: the filter that chose the ids."""
    request = key or str(uuid4())
    order = {id_: place for place, id_ in enumerate(dict.fromkeys(ids))}
    named = told or {"of": [str(id_) for id_ in order]}
    details = {"key": request, "failed_only": failed_only, **named}
    made: list[UUID] = []
    with audited(Action.REPLAY, asked, now=now, details=details) as entry:
        for batch in batches(order):
            with transaction.atomic():
                rows = [
                    again(parent, tasks, asked, now, uuid5(parent.id, f"replay:{request}"))
                    for parent, tasks in _repeatable(_parents(batch, order), failed_only=failed_only)
                ]
                for row in rows:
                    row.run_at += order[_parent(row)] * MICROSECOND
                entry.add(create_missing(rows))
            made += [row.id for row in rows]
            progress(len(batch))
    return Replayed(tuple(made), refused=len(order) - len(made))


def _parents(ids: Collection[UUID], order: Mapping[UUID, int]) -> list[Occurrence]:
    """In the order asked for. Kept, so that nobody prunes what the new ones are about to refer to."""
    rows = Occurrence.objects.filter(id__any=kept(ids)).select_related("job")
    return sorted(rows, key=lambda row: order[row.id])


def _parent(row: Occurrence) -> UUID:
    assert row.parent_id is not None  # noqa: S101 - `again` sets it
    return row.parent_id


def replayable(rows: OccurrenceQuerySet, *, failed_only: bool = False) -> OccurrenceQuerySet:
    """Over, one instant, of a job that still exists, and with a task that failed if only those are wanted."""
    over = rows.filter(state__in=OCCURRENCE_FINAL, spans_until=None, job__removed_at=None)
    ours = over.exclude(job__origin=Origin.POLLING)
    return ours.filter(Exists(_failed().filter(occurrence=OuterRef("pk")))) if failed_only else ours


def _failed() -> TaskRunQuerySet:
    return TaskRun.objects.filter(state__in=NOT_DONE, task__retired_at=None)


def _repeatable(
    parents: Sequence[Occurrence], *, failed_only: bool
) -> Iterator[tuple[Occurrence, list[UUID] | None]]:
    wanted = Occurrence.objects.filter(id__any=[row.id for row in parents])
    allowed = set(replayable(wanted).values_list("id", flat=True))
    failed = _failed_tasks(parents) if failed_only else {}
    for parent in parents:
        if parent.id not in allowed:
            continue
        if not failed_only:
            # A replay of a part repeats that part.
            yield parent, [UUID(id_) for id_ in parent.only_tasks] if parent.only_tasks else None
        elif parent.id in failed:
            yield parent, failed[parent.id]


def _failed_tasks(parents: Sequence[Occurrence]) -> dict[UUID, list[UUID]]:
    rows = _failed().filter(occurrence__any=[row.id for row in parents]).order_by("position")
    found: dict[UUID, list[UUID]] = {}
    for owner, task in rows.values_list("occurrence_id", "task_id"):
        found.setdefault(owner, []).append(task)
    return found


def batches(ids: Iterable[UUID]) -> Iterator[list[UUID]]:
    rest = iter(ids)
    while batch := list(islice(rest, BATCH)):
        yield batch


def again(
    parent: Occurrence, tasks: Collection[UUID] | None, asked: Asked, now: datetime, id_: UUID
) -> Occurrence:
    """The row of a repetition; unsaved."""
    job: Job = parent.job
    made = new_occurrence(
        job,
        job_config(job, parent.overrides),
        scheduled_for=parent.scheduled_for,
        run_at=now,
        now=now,
        cause=Cause.REPLAY,
        parent=parent,
        args=parent.args,
        overrides=parent.overrides,
        covers=parent.covers,
        only_tasks=None if tasks is None else [str(task) for task in tasks],
        requested_by=asked.by[:200],
        request_reason=asked.reason[:500],
    )
    made.id = id_
    return made
