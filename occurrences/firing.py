"""Due rows → admitted occurrences with their task runs, in one transaction; messages follow after it.

The job's cursor is the mutex of admission: whoever opens an occurrence holds it, so "is one active?"
cannot change between the question and the answer. Rows another beat holds are left to that beat.
The batch takes a constant number of statements, however many jobs there are.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import OuterRef, Subquery

from jobs.config import TASK_KEYS, Mode
from jobs.errors import PunctualError
from jobs.events import Event, emit
from jobs.models import Job, Task
from jobs.scheduling import task_config
from occurrences import transitions
from occurrences.admission import BROKEN, NO_TASKS, admit
from occurrences.ids import run_id
from occurrences.models import Cursor, Occurrence, TaskRun

BATCH = 500
Steps = dict[UUID, list[tuple[Task, dict[str, Any]]]]  # job → its tasks, each with its policy


@dataclass(frozen=True)
class Fired:
    """`released` are the runs that may start now: hand them to dispatch after the commit."""

    released: tuple[UUID, ...] = ()
    fired: int = 0
    queued: int = 0
    skipped: int = 0
    contended: int = 0


def fire_due(now: datetime, *, limit: int = BATCH) -> Fired:
    # A read first: on SQLite an empty tick must not take the write lock.
    if not Occurrence.objects.due(now).timely(now).exists():
        return Fired()
    with transaction.atomic():
        due = Occurrence.objects.due(now).timely(now).select_related("job").order_by("run_at", "id")
        rows = list(due.select_for_update(of=("self",), skip_locked=True, no_key=True)[:limit])
        held = _try_cursors({row.job_id for row in rows})
        mine = [row for row in rows if row.job_id in held]
        steps, broken = _steps_of(held)
        admission = admit(mine, busy=_busy(held), with_tasks=steps.keys(), broken=broken)
        for reason, ids in sorted(admission.skip.items()):
            transitions.skip(ids, reason=reason, now=now)
        transitions.queue([row.id for row in admission.queue], reason="overlap")
        released = open_occurrences(admission.fire, steps, now=now)
    return Fired(
        released=released,
        fired=len(admission.fire),
        queued=len(admission.queue),
        skipped=sum(map(len, admission.skip.values())),
        contended=len(rows) - len(mine),
    )


def admit_waiting(jobs: Collection[UUID], *, now: datetime) -> tuple[UUID, ...]:
    """Open the oldest waiting occurrence of each job that has none active. Call inside a transaction."""
    waiting = Occurrence.objects.waiting().filter(job__in=jobs).values_list("job_id", flat=True).distinct()
    if not (candidates := sorted(set(waiting))):
        return ()
    _lock_cursors(candidates)
    free = set(candidates) - _busy(candidates)
    first = Occurrence.objects.waiting().filter(job=OuterRef("pk")).order_by("run_at", "id")
    heads = Job.objects.filter(id__in=free).annotate(head=Subquery(first.values("id")[:1]))
    ids = [head for head in heads.values_list("head", flat=True) if head]
    rows = list(Occurrence.objects.filter(id__in=ids).select_related("job").order_by("run_at", "id"))
    steps, broken = _steps_of(free)
    for row in rows:
        if row.job_id not in steps:
            transitions.skip([row.id], reason=BROKEN if row.job_id in broken else NO_TASKS, now=now)
    return open_occurrences([row for row in rows if row.job_id in steps], steps, now=now)


def open_occurrences(occurrences: Iterable[Occurrence], steps: Steps, *, now: datetime) -> tuple[UUID, ...]:
    """Insert the runs, move the occurrences to dispatched; returns the runs that may start."""
    opened = list(occurrences)
    runs = [run for row in opened for run in _runs(row, steps[row.job_id], now)]
    TaskRun.objects.bulk_create(sorted(runs, key=attrgetter("id")), ignore_conflicts=True, batch_size=1000)
    transitions.fire([row.id for row in opened], now=now)
    return tuple(run.id for run in runs if run.available_at is not None)


def _runs(
    occurrence: Occurrence, steps: list[tuple[Task, dict[str, Any]]], now: datetime
) -> Iterable[TaskRun]:
    parallel = occurrence.config["mode"] == Mode.PARALLEL
    for index, (task, policy) in enumerate(steps):
        yield TaskRun(
            id=run_id(occurrence.id, task.id),
            occurrence=occurrence,
            task=task,
            position=task.position,
            policy=policy,
            available_at=now if parallel or index == 0 else None,
        )


def _try_cursors(jobs: Collection[UUID]) -> set[UUID]:
    rows = (
        Cursor.objects.filter(job__in=jobs)
        .order_by("job_id")
        .select_for_update(skip_locked=True, no_key=True)
    )
    return set(rows.values_list("job_id", flat=True))


def _lock_cursors(jobs: Collection[UUID]) -> None:
    # Ordered, so that two settling workers wait for each other instead of deadlocking.
    list(
        Cursor.objects.filter(job__in=jobs)
        .order_by("job_id")
        .select_for_update(no_key=True)
        .values_list("job_id")
    )


def _busy(jobs: Collection[UUID]) -> set[UUID]:
    active = Occurrence.objects.active().filter(job__in=jobs, exclusive=True)
    return set(active.values_list("job_id", flat=True))


def _steps_of(jobs: Collection[UUID]) -> tuple[Steps, set[UUID]]:
    """What each job would run. Rows can be edited by any road: a broken job must not stop the others."""
    steps: Steps = {}
    broken: set[UUID] = set()
    current = Task.objects.current().filter(job__in=jobs).select_related("job")
    for task in current.order_by("job_id", "position"):
        try:
            policy = task_config(task.job, task).dumped(TASK_KEYS)
        except PunctualError as error:
            broken.add(task.job_id)
            emit(Event.JOB_UNPLANNABLE, job=task.job.name, problem=error)
        else:
            steps.setdefault(task.job_id, []).append((task, policy))
    return {job: found for job, found in steps.items() if job not in broken}, broken
