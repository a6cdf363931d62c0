"""Open admitted occurrences: insert their task runs, mark them as dispatched, return the runs to send."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from punctual.jobs.config.bounded_duration import duration
from punctual.jobs.config.cascade import stored_policy
from punctual.jobs.config.choices import Mode
from punctual.jobs.errors import PunctualError
from punctual.jobs.events import Event, emit
from punctual.jobs.ids import run_id, task_id
from punctual.jobs.models import Task
from punctual.occurrences import transitions
from punctual.occurrences.admission.candidates import Due
from punctual.occurrences.admission.capacity import count_starts
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import TaskRun
from punctual.occurrences.outbox import Ready
from punctual.occurrences.querysets import Ids, IdText


class Step(NamedTuple):
    """A task of an occurrence's version, as it would run."""

    task_id: str
    name: str
    function: str
    position: int
    policy: dict[str, Any]


Steps = dict[str, list[Step]]  # by occurrence


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
        for row, run in _runs(occurrence, steps[occurrence.id], now):
            rows.append(row)
            if run is not None:
                ready.append(run)
    engine().insert_missing(TaskRun, rows)
    if bounded:
        count_starts(occurrence for occurrence in opened if occurrence.job_id in bounded)
    return tuple(ready)


def with_held_tasks(steps: Steps) -> set[str]:
    """Occurrences of which another session holds a task's row: new runs refer to it, and would wait at the
    commit. The other tasks are locked until the end of the transaction."""
    tasks = {step.task_id for own in steps.values() for step in own}
    rows = Task.objects.filter(id__any=Ids(tasks)).order_by("id")
    locked = set(rows.select_for_update(skip_locked=True, no_key=True).values_list(IdText("id"), flat=True))
    return {id_ for id_, own in steps.items() if any(step.task_id not in locked for step in own)}


def resolve_steps(rows: Sequence[Due], now: datetime) -> tuple[Steps, set[str]]:
    """The steps of each occurrence, from what was stored when it was planned, and those that are unusable.

    Rows can be edited by any means: a version with an unusable configuration must not stop the others.
    """
    steps: Steps = {}
    broken: set[str] = set()
    for row in rows:
        try:
            own = [
                Step(
                    str(task_id(row.job_id, name)),
                    name,
                    function,
                    position,
                    stored_policy(row.config, config, row.overrides),
                )
                for position, (name, function, config) in enumerate(_tasks(row.tasks))
            ]
        except PunctualError as error:
            broken.add(row.id)
            emit(Event.JOB_UNPLANNABLE, job=row.job, problem=error)
        else:
            steps |= {row.id: own} if own else {}
    if old := [row for row in rows if row.id in steps and row.version != row.current_version]:
        _restore_tasks(old, steps, now)
    return steps, broken


def _restore_tasks(rows: Iterable[Due], steps: Steps, now: datetime) -> None:
    """Insert tasks of old versions that raw SQL has deleted, as retired: the runs refer to them."""
    tasks = {
        step.task_id: Task(
            id=step.task_id,
            job_id=row.job_id,
            name=step.name,
            function=step.function,
            position=step.position,
            retired_at=now,
            created_at=now,
            updated_at=now,
        )
        for row in rows
        for step in steps[row.id]
    }
    Task.objects.bulk_create((tasks[id_] for id_ in sorted(tasks)), ignore_conflicts=True)


@lru_cache(maxsize=4096)
def _tasks(text: str | None) -> tuple[tuple[str, str, str], ...]:
    """Name, function and configuration of the tasks in a version; most jobs of a batch differ in these."""
    tasks = json.loads(text) if text else ()
    return tuple((task["name"], task["function"], json.dumps(task["config"])) for task in tasks)


def _runs(occurrence: Due, steps: list[Step], now: datetime) -> Iterator[tuple[dict[str, Any], Ready | None]]:
    """Rows, and what to send. Start hooks hold back all runs; sending the first one requests the hooks."""
    held_back = occurrence.on_start not in (None, "[]")
    parallel = occurrence.mode == Mode.PARALLEL and not held_back
    if occurrence.only_tasks is not None:
        # A replay may repeat some of the tasks; tasks retired since are left out.
        chosen = json.loads(occurrence.only_tasks)
        steps = [step for step in steps if step.task_id in chosen]
    for index, step in enumerate(steps):
        id_ = str(run_id(occurrence.id, step.task_id))
        first = parallel or index == 0
        row = {
            "id": id_,
            "occurrence_id": occurrence.id,
            "task_id": step.task_id,
            "function": step.function,
            "position": step.position,
            "policy": step.policy,
            "available_at": now if first and not held_back else None,
        }
        if step.policy.get("dispatch_timeout") is not None:
            row["dispatch_timeout"] = duration(step.policy["dispatch_timeout"])
        yield row, _ready(id_, occurrence, step) if first else None


def _ready(run: str, occurrence: Due, step: Step) -> Ready:
    policy = step.policy
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
