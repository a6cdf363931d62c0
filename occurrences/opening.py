"""Admitted occurrences → their task runs inserted, moved to dispatched; the runs that may start."""

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import Case, F, Value, When

from jobs.config import TASK_KEYS, Mode
from jobs.errors import PunctualError
from jobs.events import Event, emit
from jobs.models import Job, Task
from jobs.scheduling import schedule_of, task_config
from occurrences import transitions
from occurrences.choosing import starts_left
from occurrences.ids import run_id
from occurrences.models import Cause, Cursor, Occurrence, TaskRun
from occurrences.ready import Ready
from schedules import ScheduleError

Steps = dict[UUID, list[tuple[Task, dict[str, Any]]]]  # job → its tasks, each with its policy


def open_occurrences(
    occurrences: Iterable[Occurrence], steps: Steps, *, now: datetime, bounded: Collection[UUID] = ()
) -> tuple[Ready, ...]:
    """`bounded` are the jobs whose schedule has a `max`: their starts are counted."""
    opened = list(occurrences)
    if not opened:
        return ()
    runs = [run for row in opened for run in _runs(row, steps[row.job_id], now)]
    TaskRun.objects.bulk_create(sorted(runs, key=attrgetter("id")), ignore_conflicts=True, batch_size=1000)
    transitions.fire([row.id for row in opened], now=now)
    _count_starts(row for row in opened if row.job_id in set(bounded))
    return tuple(_ready(run) for run in runs if run.available_at is not None)


def steps_of(jobs: Collection[UUID]) -> tuple[Steps, set[UUID]]:
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


def starts_left_of(jobs: Iterable[Job], starts: dict[UUID, int]) -> dict[UUID, int]:
    """Only jobs with a `max`; `starts` comes from their locked cursors."""
    left: dict[UUID, int] = {}
    for job in jobs:
        try:
            found = starts_left(schedule_of(job), starts[job.id])
        except (ScheduleError, PunctualError):
            continue  # what is wrong with it is recorded by planning
        if found is not None:
            left[job.id] = found
    return left


def _runs(
    occurrence: Occurrence, steps: list[tuple[Task, dict[str, Any]]], now: datetime
) -> Iterable[TaskRun]:
    parallel = occurrence.config["mode"] == Mode.PARALLEL
    for index, (task, policy) in enumerate(steps):
        own = occurrence.overrides
        yield TaskRun(
            id=run_id(occurrence.id, task.id),
            occurrence=occurrence,
            task=task,
            position=task.position,
            policy=task_config(occurrence.job, task, own).dumped(TASK_KEYS) if own else policy,
            available_at=now if parallel or index == 0 else None,
        )


def _ready(run: TaskRun) -> Ready:
    occurrence = run.occurrence
    return Ready(
        run_id=run.id,
        occurrence_id=occurrence.id,
        task_id=run.task_id,
        attempts_made=0,
        job=occurrence.job.name,
        task=run.task.name,
        scheduled_for=occurrence.scheduled_for,
        mode=occurrence.config["mode"],
        queue=run.policy["queue"],
        task_timeout=run.policy["task_timeout"],
        bundle=run.policy["bundle"],
    )


def _count_starts(opened: Iterable[Occurrence]) -> None:
    """The cursors are held, so adding is safe; one statement for all of them."""
    counted = (Cause.SCHEDULE, Cause.RECOVERY)
    starts = Counter(row.job_id for row in opened if row.cause in counted)
    if starts:
        more = Case(*(When(job_id=job, then=Value(count)) for job, count in starts.items()))
        Cursor.objects.filter(job__in=starts).update(starts=F("starts") + more)
