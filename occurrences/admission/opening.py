"""Open admitted occurrences: insert their task runs, mark them as dispatched, return the runs to send."""

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import starmap
from typing import Any, NamedTuple

from django.db.models import TextField
from django.db.models.functions import Cast

from punctual.jobs.config.bounded_duration import duration
from punctual.jobs.config.cascade import stored_policy
from punctual.jobs.config.choices import Mode
from punctual.jobs.errors import PunctualError
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import run_id
from punctual.jobs.models import Task
from punctual.occurrences import transitions
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.admission.capacity import count_starts
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import TaskRun
from punctual.occurrences.outbox import Ready
from punctual.occurrences.querysets import Ids, IdText


class Step(NamedTuple):
    """A task of a job, as it would run; the configurations are the stored texts."""

    task_id: str
    name: str
    position: int
    policy: dict[str, Any]
    job_config: str
    task_config: str


class StoredTask(NamedTuple):
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
    occurrences: Iterable[Due], steps: Steps, *, now: datetime, bounded: Collection[str] = ()
) -> tuple[Ready, ...]:
    """Create the runs of these occurrences and return those to send.

    `bounded` are the jobs whose schedule has a `max`: their starts are counted. Call inside
    `pipeline`: the database marks the occurrences while the rows of their runs are built.
    """
    opened = list(occurrences)
    if not opened:
        return ()
    transitions.fire([occurrence.id for occurrence in opened], now=now)
    rows: list[dict[str, Any]] = []
    ready: list[Ready] = []
    for occurrence in opened:
        for row, run in _runs(occurrence, steps[occurrence.job_id], now):
            rows.append(row)
            if run is not None:
                ready.append(run)
    engine().insert_missing(TaskRun, rows)
    if bounded:
        count_starts(occurrence for occurrence in opened if occurrence.job_id in bounded)
    return tuple(ready)


def read_steps(jobs: Collection[str]) -> tuple[Steps, set[str]]:
    """The steps of each job, and the jobs whose configuration is unusable."""
    current = Task.objects.current().filter(job__any=Ids(jobs)).order_by("job_id", "position")
    ids = (IdText("job_id"), "job__name", IdText("id"))
    texts = (Cast("job__config", TextField()), Cast("config", TextField()))
    return resolve_steps(starmap(StoredTask, current.values_list(*ids, "name", "position", *texts)))


def jobs_with_held_tasks(steps: Steps) -> set[str]:
    """Jobs of which another session holds a task's row. New runs refer to it, and would wait at the commit.

    The other tasks are locked until the end of the transaction.
    """
    tasks = {step.task_id for own in steps.values() for step in own}
    rows = Task.objects.filter(id__any=Ids(tasks)).order_by("id")
    locked = set(rows.select_for_update(skip_locked=True, no_key=True).values_list(IdText("id"), flat=True))
    return {job for job, own in steps.items() if any(step.task_id not in locked for step in own)}


def resolve_steps(tasks: Iterable[StoredTask]) -> tuple[Steps, set[str]]:
    """Resolve the configuration of each task, given in order.

    Rows can be edited by any means: a job with an unusable configuration must not stop the others.
    """
    steps: Steps = {}
    broken: set[str] = set()
    for job, job_name, task, name, position, *texts in tasks:
        try:
            step = Step(task, name, position, stored_policy(*texts), *texts)
        except PunctualError as error:
            broken.add(job)
            emit(Event.JOB_UNPLANNABLE, job=job_name, problem=error)
        else:
            steps.setdefault(job, []).append(step)
    return {job: own for job, own in steps.items() if job not in broken} if broken else steps, broken


def _runs(occurrence: Due, steps: list[Step], now: datetime) -> Iterator[tuple[dict[str, Any], Ready | None]]:
    """Rows, and what to send. Start hooks hold back all runs; sending the first one requests the hooks."""
    held_back = occurrence.on_start not in (None, "[]")
    parallel = occurrence.mode == Mode.PARALLEL and not held_back
    if occurrence.only_tasks is not None:
        # A replay may repeat some of the tasks; tasks retired since are left out.
        chosen = json.loads(occurrence.only_tasks)
        steps = [step for step in steps if step.task_id in chosen]
    for index, step in enumerate(steps):
        policy = step.policy
        if occurrence.overrides != "{}":
            policy = stored_policy(step.job_config, step.task_config, occurrence.overrides)
        id_ = str(run_id(occurrence.id, step.task_id))
        first = parallel or index == 0
        row = {
            "id": id_,
            "occurrence_id": occurrence.id,
            "task_id": step.task_id,
            "position": step.position,
            "policy": policy,
            "available_at": now if first and not held_back else None,
        }
        if policy.get("dispatch_timeout") is not None:
            row["dispatch_timeout"] = duration(policy["dispatch_timeout"])
        yield row, _ready(id_, occurrence, step, policy) if first else None


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
