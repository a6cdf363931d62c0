"""Finished occurrences → new, linked ones that run again (REC-4).

The new id follows from the parent and the request's key, so asking twice with one key (a double
click, a command that was repeated) makes it once, and another key makes another one. What is made
goes through the normal doors: pools hold it, and an occurrence under way makes it wait.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID, uuid4, uuid5

from django.db import transaction

from jobs.models import Job
from jobs.scheduling import job_config
from occurrences.materialize import create_missing, new_occurrence
from occurrences.models import Cause, Occurrence, OccurrenceQuerySet, TaskRun
from occurrences.states import OCCURRENCE_FINAL, RunState
from recovery.audit import Asked, note
from recovery.models import Action

BATCH = 500
NOT_DONE = (RunState.DLQ, RunState.CANCELED)


@dataclass(frozen=True)
class Replayed:
    """`refused`: under way, a range, of a removed job, or without a task that failed."""

    made: tuple[UUID, ...] = ()
    refused: int = 0


def replay(
    ids: Collection[UUID], *, asked: Asked, now: datetime, failed_only: bool = False, key: str | None = None
) -> Replayed:
    """`failed_only` runs the tasks that did not succeed; `key` identifies the request."""
    request = key or str(uuid4())
    made: list[UUID] = []
    found = 0
    for batch in batches(sorted(set(ids))):
        with transaction.atomic():
            parents = list(Occurrence.objects.filter(id__in=batch).select_related("job").order_by("id"))
            rows = [
                again(parent, tasks, asked, now, uuid5(parent.id, f"replay:{request}"))
                for parent, tasks in _repeatable(parents, failed_only=failed_only)
            ]
            fresh = insert(rows)
            found += len(rows)
            made += [row.id for row in rows]
            if fresh:
                details = {
                    "key": request,
                    "failed_only": failed_only,
                    "of": [str(row.parent_id) for row in rows],
                }
                note(Action.REPLAY, asked, count=fresh, now=now, details=details)
    return Replayed(tuple(made), refused=len(set(ids)) - found)


def replayable(rows: OccurrenceQuerySet) -> OccurrenceQuerySet:
    """Over, one instant, and of a job that still exists."""
    return rows.filter(state__in=OCCURRENCE_FINAL, spans_until=None, job__removed_at=None).exclude(
        job__origin="polling"
    )


def _repeatable(
    parents: Sequence[Occurrence], *, failed_only: bool
) -> Iterator[tuple[Occurrence, list[UUID] | None]]:
    allowed = set(
        replayable(Occurrence.objects.filter(id__in=[row.id for row in parents])).values_list("id", flat=True)
    )
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
    rows = TaskRun.objects.filter(occurrence__in=[row.id for row in parents], state__in=NOT_DONE)
    found: dict[UUID, list[UUID]] = {}
    for owner, task in (
        rows.filter(task__retired_at=None).order_by("position").values_list("occurrence_id", "task_id")
    ):
        found.setdefault(owner, []).append(task)
    return found


def insert(rows: Sequence[Occurrence]) -> int:
    """How many of them are new; the others were made by an earlier request with the same key."""
    known = Occurrence.objects.filter(id__in=[row.id for row in rows]).count()
    create_missing(rows)
    return len(rows) - known


def batches(ids: Iterable[UUID], size: int = BATCH) -> Iterator[list[UUID]]:
    rest = iter(ids)
    while batch := list(islice(rest, size)):
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
