"""Admitted occurrences → their task runs inserted, moved to dispatched; the runs that may start."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import starmap
from typing import Any, NamedTuple

from django.db.models import Case, F, TextField, Value, When
from django.db.models.functions import Cast

from jobs.config import TASK_KEYS, Mode
from jobs.errors import PunctualError
from jobs.events import Event, emit
from jobs.models import Job, Task
from jobs.scheduling import schedule_of, stored_config
from occurrences import transitions
from occurrences.arrays import Ids, IdText
from occurrences.choosing import starts_left
from occurrences.due import Due
from occurrences.ids import run_text
from occurrences.models import Cause, Cursor, TaskRun
from occurrences.ready import Ready
from occurrences.unawaited import checked, unawaited
from occurrences.writing import insert_missing
from schedules import ScheduleError


class Step(NamedTuple):
    """A task of a job, as it would run; the configurations are the stored texts."""

    task_id: str
    name: str
    position: int
    policy: dict[str, Any]
    job_config: str
    task_config: str


class Stored(NamedTuple):
    """A task of a job, as its rows have it."""

    job_id: str
    job: str
    task_id: str
    name: str
    position: int
    job_config: str
    task_config: str


Steps = dict[str, list[Step]]


def open_occurrences(
    occurrences: Iterable[Due],
    steps: Steps,
    *,
    now: datetime,
    bounded: Collection[str] = (),
    prepare: Callable[[Sequence[Ready]], Callable[[], None]] | None = None,
) -> tuple[Ready, ...]:
    """`bounded` are the jobs whose schedule has a `max`: their starts are counted. `prepare` is told what may
    be sent, asks what it needs to know, and returns what to do while the database writes."""
    opened = list(occurrences)
    if not opened:
        return ()
    rows: list[dict[str, Any]] = []
    ready: list[Ready] = []
    for row in opened:
        for run, told in _runs(row, steps[row.job_id], now):
            rows.append(run)
            if run["available_at"] is not None:
                ready.append(told)
    meanwhile = prepare(ready) if prepare else None
    with unawaited():
        insert_missing(TaskRun, rows)
        transitions.fire([row.id for row in opened], now=now)
        if bounded:
            _count_starts(row for row in opened if row.job_id in bounded)
        if meanwhile:
            checked()
            meanwhile()
    return tuple(ready)


def steps_of(jobs: Collection[str]) -> tuple[Steps, set[str]]:
    """What each job would run."""
    current = Task.objects.current().filter(job__any=Ids(jobs)).order_by("job_id", "position")
    ids = (IdText("job_id"), "job__name", IdText("id"))
    texts = (Cast("job__config", TextField()), Cast("config", TextField()))
    return resolved(starmap(Stored, current.values_list(*ids, "name", "position", *texts)))


def resolved(tasks: Iterable[Stored]) -> tuple[Steps, set[str]]:
    """Tasks in order → the steps of each job, and the jobs whose configuration is of no use. Rows can be
    edited by any road: a broken job must not stop the others."""
    steps: Steps = {}
    broken: set[str] = set()
    policies: dict[tuple[str, str], dict[str, Any]] = {}  # most tasks share a few configurations
    for job, job_name, task, name, position, *stored in tasks:
        layers = (stored[0], stored[1])
        try:
            if layers not in policies:
                policies[layers] = stored_config(*layers).dumped(TASK_KEYS)
        except PunctualError as error:
            broken.add(job)
            emit(Event.JOB_UNPLANNABLE, job=job_name, problem=error)
        else:
            steps.setdefault(job, []).append(Step(task, name, position, policies[layers], *layers))
    return {job: found for job, found in steps.items() if job not in broken} if broken else steps, broken


def starts_left_of(rows: Iterable[Due], starts: dict[str, int]) -> dict[str, int]:
    """Only jobs with a `max`; `starts` comes from their locked cursors."""
    # The option cannot be set without its name being written, so the many others need no parsing.
    named = {row.job_id for row in rows if "max" in row.schedule.lower()}
    left: dict[str, int] = {}
    for job in Job.objects.filter(id__any=named) if named else ():
        try:
            found = starts_left(schedule_of(job), starts[str(job.id)])
        except (ScheduleError, PunctualError):
            continue  # what is wrong with it is recorded by planning
        if found is not None:
            left[str(job.id)] = found
    return left


def _runs(occurrence: Due, steps: list[Step], now: datetime) -> Iterator[tuple[dict[str, Any], Ready]]:
    parallel = occurrence.mode == Mode.PARALLEL
    for index, step in enumerate(_chosen(steps, occurrence.only_tasks)):
        policy = _own_policy(step, occurrence.overrides) if occurrence.overrides else step.policy
        id_ = run_text(occurrence.id, step.task_id)
        row = {
            "id": id_,
            "occurrence_id": occurrence.id,
            "task_id": step.task_id,
            "position": step.position,
            "policy": policy,
            "available_at": now if parallel or index == 0 else None,
        }
        yield row, _ready(id_, occurrence, step, policy)


def _chosen(steps: list[Step], only_tasks: list[str] | None) -> list[Step]:
    """A replay may repeat some of the tasks; those retired since are left out."""
    if only_tasks is None:
        return steps
    return [step for step in steps if step.task_id in only_tasks]


def _own_policy(step: Step, overrides: dict[str, Any]) -> dict[str, Any]:
    return stored_config(step.job_config, step.task_config, overrides).dumped(TASK_KEYS)


def _ready(run: str, occurrence: Due, step: Step, policy: dict[str, Any]) -> Ready:
    return Ready(
        run_id=run,
        occurrence_id=occurrence.id,
        task_id=step.task_id,
        attempts_made=0,
        job=occurrence.job,
        task=step.name,
        scheduled_for=occurrence.scheduled_for,
        mode=occurrence.mode,
        queue=policy["queue"],
        task_timeout=policy["task_timeout"],
        bundle=policy["bundle"],
    )


def _count_starts(opened: Iterable[Due]) -> None:
    """The cursors are held, so adding is safe; one statement for all of them."""
    counted = (Cause.SCHEDULE, Cause.RECOVERY)
    starts = Counter(row.job_id for row in opened if row.cause in counted)
    if starts:
        more = Case(*(When(job_id=job, then=Value(count)) for job, count in starts.items()))
        Cursor.objects.filter(job__any=Ids(starts)).update(starts=F("starts") + more)
